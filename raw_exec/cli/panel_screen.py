"""Panels on a terminal: drawn in place while a call runs, out of the way while it asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..interactions import TerminalAdapter, standard_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from ..interactions import Question, Reply
    from ..panels import PanelView

__all__ = ["PanelScreen", "ScreenAdapter", "open_screen"]


class PanelScreen:
    """Draws the panels of a session on standard error, the newest state of each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._views: dict[str, PanelView] = {}
        self._live: Live | None = None
        self._paused = False

    async def show(self, view: PanelView) -> None:
        """Take a panel's new state."""
        self._views[view.id] = view
        self._draw()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing inside the block: somebody types."""
        self.stop()
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self._draw()

    def stop(self) -> None:
        """Leave what is drawn where it is; the next state is drawn below."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        if self._paused or not self._views:
            return
        from rich.live import Live
        from rich.text import Text

        from ..panels import render_panel

        width = self._console.width
        text = "\n\n".join(render_panel(view, width=width) for view in self._views.values())
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
                # What has scrolled away can't be drawn over; the last state is drawn whole.
                vertical_overflow="ellipsis",
            )
            self._live.start()
        self._live.update(Text(text, no_wrap=True, overflow="crop"), refresh=True)


class ScreenAdapter:
    """Asks at the terminal, while no panel is drawn.

    Args:
        screen: What to pause; ``None`` when nothing is drawn.
    """

    def __init__(self, screen: PanelScreen | None) -> None:
        self._screen = screen
        self._inner = TerminalAdapter()

    def can_ask(self, session: str) -> bool:
        """Say whether a person is at the terminal."""
        return self._inner.can_ask(session)

    async def ask(self, question: Question, reply: Reply) -> None:
        """Put the question, and give the answer to ``reply``."""
        if self._screen is None:
            await self._inner.ask(question, reply)
            return
        with self._screen.paused():
            await self._inner.ask(question, reply)


@contextmanager
def open_screen(*, wanted: bool) -> Iterator[PanelScreen | None]:
    """Yield a screen when standard error is a terminal in whose foreground we are."""
    terminal = standard_terminal() if wanted and sys.stderr.isatty() else None
    if terminal is None:
        yield None
        return
    import os

    from rich.console import Console

    class VisibleCursor(Console):
        """Never hides the cursor: who is killed could not bring it back."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    os.close(terminal)
    screen = PanelScreen(VisibleCursor(stderr=True, highlight=False, markup=False, emoji=False))
    try:
        yield screen
    finally:
        screen.stop()
