"""Opening a session, or taking one up where an earlier host left it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigError
from ..history import PanelRevision as StoredPanel
from ..history import epoch_ms
from ..jobs import open_jobs
from ..panels import PanelBoard, PanelError, PanelRevision, PanelView, open_live
from ..values import thaw
from .keeper import SessionKeeper
from .recorder import open_recorder
from .session import Session

if TYPE_CHECKING:
    from ..runtime import Runtime

__all__ = ["open_session"]

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_session(
    runtime: Runtime,
    keeper: SessionKeeper,
    session_id: str | None,
    *,
    resume: bool,
    cwd: str,
    on_panel: Callable[[PanelView], Awaitable[None]] | None,
) -> AsyncIterator[Session]:
    """See ``Runtime.open_session``."""
    history, questions = await keeper.open()
    name = session_id or f"session_{secrets.token_hex(8)}"
    if not 0 < len(name) <= 200:
        raise ConfigError("option_invalid", "a session's ID has 1 to 200 characters")
    record = await history.begin_session(
        name,
        agent=runtime.config.agent.name,
        principal=runtime.principal,
        cwd=cwd,
        resume=resume,
    )
    reason = "failed"
    try:
        restored = _restored(await history.panels(name))
        async with AsyncExitStack() as stack:
            show = None
            if on_panel is not None:
                live = await stack.enter_async_context(open_live(_guarded(on_panel)))
                show = live.offer
            recorder = await stack.enter_async_context(open_recorder(history, name))
            jobs = await stack.enter_async_context(
                open_jobs(
                    runtime.launcher,
                    grace_ms=runtime.limits.grace_ms,
                    on_change=recorder.note,
                )
            )
            board = PanelBoard(
                {tool.identity: tool.manifest.panels for tool in runtime.loaded.tools},
                epoch_ms,
                on_live=show,
                restore=restored,
            )
            yield Session(runtime, record, history, questions, board, jobs, cwd)
        reason = "ended"
    finally:
        with trio.CancelScope(shield=True):
            await history.end_session(name, reason)


def _guarded(
    on_panel: Callable[[PanelView], Awaitable[None]],
) -> Callable[[PanelView], Awaitable[None]]:
    """Let a client that fails miss a frame, and the session go on."""

    async def send(view: PanelView) -> None:
        try:
            await on_panel(view)
        except Exception:
            _log.exception("showing panel %s failed", view.id)

    return send


def _restored(stored: Sequence[StoredPanel]) -> list[PanelRevision]:
    """Read what an earlier host committed; what can't be read any more is left out."""
    found = []
    for panel in stored:
        try:
            found.append(PanelRevision.from_dict(thaw(panel.document)))
        except PanelError:
            continue  # A document of an older version: the history keeps it all the same.
    return found
