"""The launcher's end of the supervisor's socket: reads that never block, writes that queue."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from .protocol import CutMessage, PeerClosed, close_all, receive, send

__all__ = ["Control"]

_BURST = 32


class Control:
    """Messages to and from the supervisor.

    Args:
        sock: Connected ``SOCK_SEQPACKET`` socket.
        selector: The loop's; this object registers itself.
    """

    def __init__(self, sock: socket.socket, selector: selectors.BaseSelector) -> None:
        self.closed = False
        self._sock = sock
        self._selector = selector
        self._outgoing: deque[tuple[dict[str, Any], tuple[int, ...]]] = deque()
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, self)

    def on_event(self, events: int, handle: Callable[[dict[str, Any], list[int]], None]) -> None:
        """Write what is queued, and pass on what came. ``handle`` may keep no descriptor."""
        if events & selectors.EVENT_WRITE:
            self._flush()
        if not events & selectors.EVENT_READ:
            return
        # A burst at a time: a busy supervisor must not keep deaths from being seen.
        for _ in range(_BURST):
            try:
                message, fds = receive(self._sock)
            except BlockingIOError:
                return
            except (PeerClosed, OSError):
                self.closed = True
                return
            except CutMessage as exc:
                self._refuse_cut(exc.message)
                continue
            except ValueError as exc:
                self.post({"op": "error", "message": str(exc)})
                continue
            try:
                handle(message, fds)
            finally:
                close_all(fds)

    def _refuse_cut(self, message: dict[str, Any]) -> None:
        """Fail the one spawn whose descriptors were lost, not everything that runs."""
        step = {"step": "descriptors", "errno": errno.EMFILE, "message": os.strerror(errno.EMFILE)}
        if message.get("op") == "spawn":
            self.post({"op": "spawn_failed", "id": str(message.get("id")), **step})
        else:
            self.post({"op": "error", "message": f"{message.get('op')!r:.40} came cut"})

    def post(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send now or as soon as the supervisor reads again."""
        # Owns duplicates: the record may be closed before the packet is sent.
        self._outgoing.append((message, tuple(os.dup(fd) for fd in fds)))
        self._flush()

    def _flush(self) -> None:
        while self._outgoing and not self.closed:
            message, fds = self._outgoing[0]
            try:
                send(self._sock, message, fds)
            except BlockingIOError:
                self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
                return
            except (PeerClosed, OSError):
                self.closed = True
                return
            self._outgoing.popleft()
            close_all(list(fds))
        self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if self._selector.get_key(self._sock).events != events:
            self._selector.modify(self._sock, events, self)
