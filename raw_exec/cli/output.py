"""Where words go: data to standard output, everything else to standard error.

Security: text of plugins and models reaches a terminal only through ``escape_text``. JSON is
always printed as ASCII, so that it needs no other escaping.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from ..errors import ConfigError
from ..text import escape_text

if TYPE_CHECKING:
    from .options import Settings

__all__ = ["Output", "OutputLost", "colour_allowed", "guarded_stdout", "is_terminal"]

_STYLES = {"error": "1;31", "warning": "33", "hint": "36", "good": "32", "bold": "1", "dim": "2"}


def is_terminal(stream: TextIO) -> bool:
    """Return whether a person sees this stream directly."""
    try:
        return stream.isatty()
    except ValueError:
        return False  # closed


def colour_allowed(stream: TextIO) -> bool:
    """Return whether colour may be written: a terminal, and the user has not said no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def _paint(text: str, style: str, stream: TextIO) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour_allowed(stream) else text


class OutputLost(ConfigError):
    """Standard output takes no more: its disk is full, or its reader is gone.

    Args:
        exc: What writing raised.
    """

    def __init__(self, exc: OSError) -> None:
        message = f"can not be written: {exc.strerror or exc}"
        super().__init__("output_unwritable", message, where="standard output")
        self.reader_is_gone = isinstance(exc, BrokenPipeError)


class _Stdout:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as exc:
            raise OutputLost(exc) from exc

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as exc:
            raise OutputLost(exc) from exc


@contextmanager
def guarded_stdout() -> Iterator[None]:
    """Tell a failure of standard output apart from every other ``OSError``.

    While this is open, whatever writes to ``sys.stdout`` raises ``OutputLost`` instead.
    """
    stream = sys.stdout
    sys.stdout = cast("TextIO", _Stdout(stream))
    try:
        yield
    finally:
        sys.stdout = stream


class Output:
    """Prints for one command run.

    Args:
        settings: Says whether to be quiet, and whether data is JSON.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    # -- standard output: data

    def json(self, value: Any) -> None:
        """Print one JSON value; indented for a person, on one line for a program."""
        indent = 2 if is_terminal(sys.stdout) else None
        print(json.dumps(value, indent=indent, ensure_ascii=True), flush=True)

    def data(self, text: str) -> None:
        """Print text as it is, except that a terminal gets it escaped."""
        shown = escape_text(text) if is_terminal(sys.stdout) else text
        print(shown, flush=True)

    def heading(self, text: str) -> None:
        """Print a heading of a description for people."""
        print(_paint(escape_text(text), "bold", sys.stdout))

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """Print one line of a description for people, escaped wherever it goes."""
        shown = escape_text(text, keep_newlines=False)
        print(_paint(shown, style, sys.stdout) if style else shown)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print columns, as wide as their widest cell; the last one is not padded."""
        cells = [[escape_text(cell, keep_newlines=False) for cell in row] for row in rows]
        widths = [
            max(len(header[i]), *(len(row[i]) for row in cells)) if cells else len(header[i])
            for i in range(len(header))
        ]
        print(_paint(_columns(header, widths), "bold", sys.stdout))
        for row in cells:
            print(_columns(row, widths))

    # -- standard error: everything else

    def note(self, text: str) -> None:
        """Print something useful to know, unless ``-q``."""
        if self._settings.verbosity >= 0:
            _print_error(escape_text(text))

    def detail(self, text: str) -> None:
        """Print something that only ``-v`` asks for."""
        if self._settings.verbosity > 0:
            _print_error(_paint(escape_text(text), "dim", sys.stderr))

    def warning(self, text: str) -> None:
        """Print a warning, unless ``-q``."""
        if self._settings.verbosity >= 0:
            _print_error(_paint("warning:", "warning", sys.stderr) + f" {escape_text(text)}")

    def error(self, text: str, *, hints: Sequence[str] = (), more: Sequence[str] = ()) -> None:
        """Print what went wrong: one ``error:`` line, more lines, then hints."""
        first, *rest = escape_text(text).split("\n")
        _print_error(_paint("error:", "error", sys.stderr) + f" {first}")
        # Security: a plugin's text may have many lines; the bar shows that they are all its.
        for line in rest:
            _print_error(f"  | {line}")
        for item in more:
            _print_error(f"  {escape_text(item, keep_newlines=False)}")
        for hint in hints:
            shown = escape_text(hint, keep_newlines=False)
            _print_error("  " + _paint("hint:", "hint", sys.stderr) + f" {shown}")


def _columns(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _print_error(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody is left to read it; the exit status still says what happened
