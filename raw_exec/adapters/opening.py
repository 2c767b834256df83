"""Opening a native runtime in a thread, for every facade."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from ..approval import ApprovalRequest, Approver
from ..config import Config
from ..interactions import Adapter
from ..runtime import Runtime, open_runtime
from ..sessions import Session
from .thread import LoopThread

if TYPE_CHECKING:
    from ..panels import PanelView

__all__ = ["PanelCallback", "native_thread", "refuse_to_wait", "session_manager"]

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

    return LoopThread(opening, name="raw-exec", on_fork=_let_launcher_go)


def _let_launcher_go(runtime: Runtime) -> None:
    """Close a forked child's copy of the launcher's socket.

    The launcher ends every tree when its parent is gone, which it can't see while a child of
    that parent holds the socket open.
    """
    connection = runtime.launcher._connection
    if connection is not None and connection.sock.fileno() >= 0:
        os.close(connection.sock.detach())


def session_manager(
    runtime: Runtime,
    session_id: str | None,
    resume: bool,
    cwd: str | os.PathLike[str] | None,
    on_panel: PanelCallback | None,
) -> AbstractAsyncContextManager[Session]:
    """Return the context manager of a native session."""
    return runtime.open_session(session_id, resume=resume, cwd=cwd, on_panel=on_panel)


def refuse_to_wait(loop: LoopThread[Any]) -> None:
    """Refuse a call that would wait for the very thread that it is made in.

    Raises:
        RuntimeError: It is made in the loop's own thread.
    """
    if loop.is_own_thread():
        raise RuntimeError("a blocking call in the runtime's own thread would wait for itself")
