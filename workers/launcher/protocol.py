"""Messages on the sockets of the launcher: one JSON object a packet, with descriptors.

Sockets are ``SOCK_SEQPACKET``, so a packet is a message and end of file is death.
The same framing serves supervisor↔launcher and launcher↔set-up child.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

__all__ = [
    "MAX_MESSAGE",
    "VERSION",
    "CutMessage",
    "PeerClosed",
    "close_all",
    "fits",
    "receive",
    "send",
]

VERSION = 1
MAX_MESSAGE = 64 * 1024
_MAX_FDS = 32


class PeerClosed(Exception):
    """The other end of the socket is gone."""


class CutMessage(ValueError):
    """A whole message came without its descriptors: this process can't hold more.

    Args:
        message: What came.
    """

    def __init__(self, message: dict[str, Any]) -> None:
        super().__init__("descriptors of a message could not be taken")
        self.message = message


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def fits(message: dict[str, Any]) -> bool:
    """Say whether a message is short enough for a packet."""
    return len(_encode(message)) <= MAX_MESSAGE


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message.

    Raises:
        PeerClosed: The other end is gone.
        ValueError: The message is longer than a packet may be.
    """
    data = _encode(message)
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"message of {len(data)} bytes is over {MAX_MESSAGE}")
    try:
        if fds:
            socket.send_fds(sock, [data], list(fds))
        else:
            sock.send(data)
    except (BrokenPipeError, ConnectionResetError) as exc:
        raise PeerClosed from exc


def receive(sock: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one message and its descriptors (close-on-exec).

    Raises:
        PeerClosed: End of file.
        CutMessage: Its descriptors are lost.
        ValueError: The packet is not a JSON object, or was cut.
    """
    try:
        # One more than allowed, so that a cut packet is noticed.
        data, fds, flags, _ = socket.recv_fds(
            sock, MAX_MESSAGE + 1, _MAX_FDS, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError as exc:
        raise PeerClosed from exc
    if not data:
        raise PeerClosed
    try:
        if len(data) > MAX_MESSAGE or flags & socket.MSG_TRUNC:
            raise ValueError(f"message is over {MAX_MESSAGE} bytes")
        message = json.loads(data)
        if not isinstance(message, dict):
            raise ValueError("message is not an object")
        if flags & socket.MSG_CTRUNC:
            raise CutMessage(message)
    except ValueError:
        close_all(fds)
        raise
    return message, fds


def close_all(fds: list[int]) -> None:
    """Close descriptors that nobody will use."""
    for fd in fds:
        os.close(fd)
