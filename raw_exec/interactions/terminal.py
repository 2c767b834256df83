"""Asking at the terminal.

Rules
1. A terminal is used only when standard input and standard error both are one and this process
   is in its foreground. Anything piped means that nobody is there to be asked.
2. What was typed before the question appeared is thrown away, and so is a half-typed answer
   when the question ends otherwise: neither may answer something that it was not meant for.
3. The terminal is opened anew for each question, without blocking, so cancelling takes effect
   at once and leaves no thread behind. Its modes are restored in any case.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from ..panels.forms import AnswersInvalid, Form, FormField, check_answers
from ..text import escape_text
from .errors import InteractionError
from .question import Question, Reply
from .rendering import END_OF_TEXT, parse_line, render_field, render_header

__all__ = ["TerminalAdapter", "standard_terminal"]

_MAX_LINE_BYTES: Final = 4095
"""What Linux keeps of one line; it drops the rest without a word."""
_CORRECTABLE: Final = ("answers_invalid", "answers_over_budget")
_LOCAL_MODES: Final = 3


def standard_terminal() -> int | None:
    """Open the terminal that standard input and error are, or return ``None``.

    The descriptor is the caller's, and does not block.
    """
    try:
        if not (os.isatty(0) and os.isatty(2)):
            return None
        flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(os.ttyname(0), flags)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(fd) == os.getpgrp():
            return fd
    except OSError:
        pass  # hung up, or not the controlling terminal
    os.close(fd)
    return None


class _Declined(Exception):
    """The person pressed Ctrl-D, or the terminal is gone."""


class TerminalAdapter:
    """Asks on a terminal, one question at a time.

    Args:
        open_terminal: Opens it for one question, or returns ``None``.
        lock: Held while asking; shared with others who ask at the same terminal.
    """

    def __init__(
        self,
        open_terminal: Callable[[], int | None] = standard_terminal,
        lock: trio.Lock | None = None,
    ) -> None:
        self._open = open_terminal
        self._lock = lock or trio.Lock()

    def can_ask(self, session: str) -> bool:
        """Whether there is a terminal now."""
        fd = self._open()
        if fd is None:
            return False
        os.close(fd)
        return True

    async def ask(self, question: Question, reply: Reply) -> None:
        """Ask field by field, and once more when the answers do not fit together."""
        async with self._lock:
            fd = self._open()
            if fd is None:
                await reply.cancel()
                return
            try:
                with _line_mode(fd):
                    await _Dialogue(fd).hold(question, reply)
            finally:
                os.close(fd)


@contextmanager
def _line_mode(fd: int) -> Iterator[None]:
    """Read whole lines with echo, and restore what was set before."""
    try:
        before = termios.tcgetattr(fd)
        modes = termios.tcgetattr(fd)
        modes[_LOCAL_MODES] |= termios.ICANON | termios.ECHO | termios.ISIG
        termios.tcflush(fd, termios.TCIFLUSH)
        termios.tcsetattr(fd, termios.TCSANOW, modes)
    except termios.error:
        yield  # hung up; the first read says so
        return
    try:
        yield
    finally:
        try:
            termios.tcflush(fd, termios.TCIFLUSH)
            # TCSADRAIN would wait for a terminal whose output is stopped.
            termios.tcsetattr(fd, termios.TCSANOW, before)
        except termios.error:
            pass  # hung up meanwhile


class _Dialogue:
    """One question at an open terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._open_line = False

    async def hold(self, question: Question, reply: Reply) -> None:
        try:
            await self._until_accepted(question, reply)
        except _Declined:
            await reply.cancel()
        finally:
            if self._open_line:
                self._write_nowait("\n  (the question was taken back)\n")

    async def _until_accepted(self, question: Question, reply: Reply) -> None:
        await self._write(render_header(question) + "\n")
        while True:
            answers: dict[str, Any] = {}
            count = len(question.form.fields)
            for number, field in enumerate(question.form.fields, 1):
                answers |= await self._ask_field(field, number, count)
            try:
                await reply.answer(answers)
                return
            except InteractionError as exc:
                if exc.code not in _CORRECTABLE:
                    raise
                await self._complain(exc.message)

    async def _ask_field(self, field: FormField, number: int, count: int) -> dict[str, Any]:
        await self._write(render_field(field, number, count) + "\n")
        while True:
            try:
                value = parse_line(field, await self._typed(field))
                return dict(check_answers(Form("form", (field,)), {field.id: value}))
            except AnswersInvalid as exc:
                await self._complain(exc.message)

    async def _typed(self, field: FormField) -> str:
        """Return what is typed for one field; over-long lines are asked for again."""
        lines: list[str] = []
        while True:
            await self._write("  > ")
            line = await self._read_line()
            if line is None:
                if lines:
                    return "\n".join(lines)
                raise _Declined
            if len(line) >= _MAX_LINE_BYTES:
                await self._complain(f"a line here has less than {_MAX_LINE_BYTES} bytes")
                continue
            text = line.decode("utf-8", "replace")
            if not field.multiline:
                return text
            if text == END_OF_TEXT or (not lines and not text):
                return "\n".join(lines)
            lines.append(text)

    async def _complain(self, message: str) -> None:
        await self._write(f"  ! {escape_text(message, keep_newlines=False)}\n")

    async def _read_line(self) -> bytes | None:
        """Return a line without its end, or ``None`` at the end of input."""
        self._open_line = True
        line = b""
        while not line.endswith(b"\n"):
            await trio.lowlevel.wait_readable(self._fd)
            try:
                chunk = os.read(self._fd, _MAX_LINE_BYTES + 1)
            except BlockingIOError:
                continue  # somebody else was faster
            except OSError:
                raise _Declined from None  # hung up
            if not chunk:
                if line:
                    break
                await self._write("\n")
                self._open_line = False
                return None
            line += chunk
        self._open_line = False
        return line.removesuffix(b"\n")

    async def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            await trio.lowlevel.wait_writable(self._fd)
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise _Declined from None

    def _write_nowait(self, text: str) -> None:
        try:
            os.write(self._fd, text.encode())
        except OSError:
            pass  # nobody can read it
