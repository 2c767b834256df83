"""What the service lets its callers use at once."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ServiceLimits"]


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of the service. Bytes, seconds and counts.

    Args:
        running: Calls of all principals that run at the same time.
        queued: Calls of all principals that wait to run. One that does not fit in is refused.
        per_principal: Calls of one principal, running and waiting; ``None``: no bound of its
            own.
        body_bytes: One request's body.
        body_seconds: How long a client may take to send a body.
        per_second: Requests of one principal in the long run; ``None``: as many as it likes.
        kept_calls: Finished calls of one principal that can still be asked for.
        kept_bytes: What these hold together; the newest is kept whatever its size.
        kept_ids: Names of forgotten calls that still can't be used again.
        sessions: Open sessions of one principal.
        session_idle_seconds: A session that is not used for so long is closed.
        runtime_idle_seconds: The runtime of a principal without calls and sessions is closed
            after so long.
        ask_seconds: How long an approval waits for an answer.
        ping_seconds: A stream of events that has nothing to say says so this often.
        drain_seconds: How long calls may go on after the signal to stop.
    """

    running: int = 16
    queued: int = 128
    per_principal: int | None = None
    body_bytes: int = 8 * 1024 * 1024
    body_seconds: float = 30.0
    per_second: float | None = None
    kept_calls: int = 256
    kept_bytes: int = 64 * 1024 * 1024
    kept_ids: int = 10_000
    sessions: int = 32
    session_idle_seconds: float = 1800.0
    runtime_idle_seconds: float = 600.0
    ask_seconds: float = 600.0
    ping_seconds: float = 15.0
    drain_seconds: float = 30.0
