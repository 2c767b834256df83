"""What every facade shares: opening a native runtime or session in a thread, and its tools."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ..approval import ApprovalRequest, Approver
from ..config import Config
from ..interactions import Adapter
from ..profiles import ProjectedTools
from ..runtime import Runtime, open_runtime
from ..sessions import Session
from .thread import Held, LoopThread

if TYPE_CHECKING:
    from ..panels import PanelView

__all__ = [
    "PanelCallback",
    "ToolsView",
    "hold_session",
    "native_thread",
    "refuse_to_wait",
    "returning",
]

T = TypeVar("T")
PanelCallback: TypeAlias = "Callable[[PanelView], Awaitable[None]]"


def native_thread(
    config: Config,
    *,
    cwd: str | os.PathLike[str],
    approve: Callable[[ApprovalRequest], Any] | None,
    interact: Adapter | None,
    options: dict[str, Any],
) -> LoopThread[Runtime]:
    """Return a thread, not started yet, that keeps a native runtime open.

    Args:
        approve: As the native runtime calls it, in the loop.
        interact: As the native runtime calls it, in the loop.
        options: The other options of ``open_runtime``.
    """
    approver: Approver | None = approve

    def opening() -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(config, cwd=cwd, approve=approver, interact=interact, **options)

    return LoopThread(
        opening, name="raw-exec", on_fork=lambda runtime: runtime.launcher.let_go_after_fork()
    )


async def hold_session(
    loop: LoopThread[Runtime],
    session_id: str | None,
    *,
    resume: bool,
    cwd: str | os.PathLike[str] | None,
    on_panel: PanelCallback | None,
) -> tuple[Session, Held[Session]]:
    """Open a native session in a task that keeps it open; in the loop's thread."""
    return await loop.hold(
        loop.resource.open_session(session_id, resume=resume, cwd=cwd, on_panel=on_panel)
    )


async def returning(function: Callable[[], T]) -> T:
    """Make a plain function one that a loop can run."""
    return function()


class ToolsView:
    """What a model is shown of a runtime's tools, which is fixed and read from any thread."""

    def __init__(self, loop: LoopThread[Runtime]) -> None:
        self._loop = loop
        self._native = loop.resource.registry

    @property
    def names(self) -> tuple[str, ...]:
        """Model-visible names in selection order, denied tools left out."""
        return self._native.names

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self._native.cache_key

    def definitions(self, profile: str | None = None) -> list[dict[str, Any]]:
        """See ``raw_exec.Runtime.registry.definitions``."""
        return self._native.definitions(profile)

    def projected(self, profile: str) -> ProjectedTools:
        """See ``raw_exec.Runtime.registry.projected``."""
        return self._native.projected(profile)


def refuse_to_wait(loop: LoopThread[Any]) -> None:
    """Refuse a call that would wait for the very thread that it is made in.

    Raises:
        RuntimeError: It is made in the loop's own thread.
    """
    if loop.is_own_thread():
        raise RuntimeError("a blocking call in the runtime's own thread would wait for itself")
