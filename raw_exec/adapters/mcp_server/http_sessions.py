"""Sessions of the handshake era over HTTP: many, so they are bounded, and end when unused."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from .asking import AskedRequests
from .eras import SERVER_BUSY, RpcError
from .host import Host
from .jsonrpc import RequestId

__all__ = ["IDLE_SECONDS", "MAX_SESSIONS", "HttpSession", "HttpSessions"]

MAX_SESSIONS: Final = 256
IDLE_SECONDS: Final = 30 * 60.0


class HttpSession:
    """One client.

    Args:
        owner: On whose behalf it was begun; another one's requests don't reach it.
    """

    def __init__(self, host: Host, owner: str) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.peer = host.peer()
        self.asked = AskedRequests()
        self.requests: dict[RequestId, trio.CancelScope] = {}
        self.ended = trio.Event()
        self.has_stream = False
        self.uses = 0
        self.used_at = trio.current_time()

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is being served."""
        return self.uses == 0


class HttpSessions:
    """All of them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sessions: dict[str, HttpSession] = {}

    def begin(self, owner: str) -> HttpSession:
        """Begin a session; one that is unused for long makes room.

        Raises:
            RpcError: There are too many, and all are in use.
        """
        now = trio.current_time()
        for session in list(self._sessions.values()):
            if session.is_idle and now - session.used_at > IDLE_SECONDS:
                self.end(session)
        if len(self._sessions) >= MAX_SESSIONS:
            idle = [session for session in self._sessions.values() if session.is_idle]
            if not idle:
                raise RpcError(SERVER_BUSY, f"{MAX_SESSIONS} sessions are in use; end one")
            self.end(min(idle, key=lambda session: session.used_at))
        session = HttpSession(self._host, owner)
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str, owner: str) -> HttpSession | None:
        """Return a session that has not ended."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != owner:
            return None
        if session.is_idle and trio.current_time() - session.used_at > IDLE_SECONDS:
            self.end(session)
            return None
        return session

    @contextmanager
    def using(self, session: HttpSession) -> Iterator[None]:
        """Keep a session while one of its requests is served."""
        session.uses += 1
        try:
            yield
        finally:
            session.uses -= 1
            session.used_at = trio.current_time()

    def end(self, session: HttpSession) -> None:
        """End a session: its calls are aborted, its streams closed."""
        if self._sessions.pop(session.id, None) is not None:
            session.ended.set()
            self._host.drop(session.id)

    def end_all(self) -> None:
        """End every session."""
        for session in list(self._sessions.values()):
            self.end(session)
