"""Asking at a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from raw_exec.history import History, open_history
from raw_exec.interactions import InteractionError, InteractionService, TerminalAdapter
from tests.interactions.support import ask

ROOT = Path(__file__).parent.parent.parent
TEXT = {"id": "name", "label": "Your name", "kind": "text"}
ONE = {
    "id": "colour",
    "label": "Colour",
    "kind": "single_select",
    "options": [
        {"id": "red", "label": "Red", "description": "like blood"},
        {"id": "blue", "label": "Blue"},
    ],
}
MANY = {
    "id": "days",
    "label": "Days",
    "kind": "multi_select",
    "options": [{"id": day, "label": day.title()} for day in ("mon", "tue", "wed")],
}


class Terminal:
    """The person's side of a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self._slave = slave
        self.text = ""

    def open(self) -> int | None:
        """Open the other side as an adapter does."""
        flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(self.name, flags)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def set_modes(self, modes: list[Any]) -> None:
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)

    async def until(self, text: str) -> str:
        """Read until a text appears, and return everything up to it."""
        with trio.fail_after(30):
            while text not in self.text:
                await trio.lowlevel.wait_readable(self.master)
                self.text += os.read(self.master, 65536).decode()
        seen, _, self.text = self.text.partition(text)
        return seen + text

    async def type(self, *lines: str) -> str:
        """Answer one prompt after the other with a line each; returns what was shown."""
        shown = ""
        for line in lines:
            shown += await self.until("  > ")
            os.write(self.master, line.encode())
        return shown

    def close(self) -> None:
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Yield a pseudo-terminal."""
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
async def history() -> AsyncIterator[History]:
    """Yield a history with one session."""
    async with open_history() as opened:
        await opened.begin_session("s1")
        yield opened


@pytest.fixture
def service(history: History, terminal: Terminal) -> InteractionService:
    """Return a service that asks at the terminal."""
    return InteractionService(history, TerminalAdapter(terminal.open))


async def dialogue(
    service: InteractionService, terminal: Terminal, fields: list[Any], *lines: str, **changes: Any
) -> tuple[Any, str]:
    """Ask, type lines, and return the answers (or the code) and what was shown."""
    document = {"blocks": [{"id": "f", "kind": "form", "fields": fields}]}
    outcome: list[Any] = []

    async def request() -> None:
        try:
            answer = await ask(service, **({"document": document} | changes))
            outcome.append(answer["answers"])
        except InteractionError as exc:
            outcome.append(exc.code)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            shown = await terminal.type(*lines)
    return outcome[0], shown


async def test_every_kind_of_field_is_asked_and_answered(
    service: InteractionService, terminal: Terminal
) -> None:
    """Text, one choice by number, several out of order."""
    note = TEXT | {"id": "note", "label": "A note", "multiline": True}
    answers, shown = await dialogue(
        service,
        terminal,
        [TEXT, ONE, MANY, note],
        "Ada Größe\n",
        "2\n",
        "3, mon\n",
        "two\n",
        "\n",
        "lines\n",
        ".\n",
    )
    assert answers == {
        "name": "Ada Größe",
        "colour": "blue",
        "days": ["mon", "wed"],
        "note": "two\n\nlines",
    }
    for part in ("Question from local/a", "(1/4) Your name", "1) Red – like blood", "1 to 3 of"):
        assert part in shown


@pytest.mark.parametrize(
    ("field", "line", "answer"),
    [
        (ONE, "red\n", "red"),
        (ONE, " RED \n", "red"),
        (ONE, "1\n", "red"),
        (ONE | {"free_text": True}, "green\n", "green"),
        (MANY, "1 3\n", ["mon", "wed"]),
        (MANY, "Wed,tue\n", ["tue", "wed"]),
        (MANY | {"free_text": True}, "later on, 1\n", ["mon", "later on"]),
    ],
)
async def test_a_choice_is_named_by_id_label_or_number(
    service: InteractionService, terminal: Terminal, field: Any, line: str, answer: Any
) -> None:
    """And a text of one's own where the form takes one."""
    answers, _ = await dialogue(service, terminal, [field], line)
    assert answers == {field["id"]: answer}


@pytest.mark.parametrize(
    ("field", "bad", "complaint"),
    [
        (TEXT, "\n", "needs an answer"),
        (TEXT | {"max_bytes": 2}, "abc\n", "has 3 bytes; the limit is 2"),
        (TEXT, "\x1b[D\n", "must not contain control characters"),
        (ONE, "3\n", "'3' is no option"),
        (MANY, "mon, sun\n", "'sun' is no option"),
        (MANY | {"max_selected": 1}, "1,2\n", "exactly 1 must be chosen"),
    ],
)
async def test_a_wrong_answer_is_asked_for_again(
    service: InteractionService, terminal: Terminal, field: Any, bad: str, complaint: str
) -> None:
    """The person is told what was wrong, and nothing else is asked again."""
    good = {"name": "ok\n", "colour": "1\n", "days": "1\n"}[field["id"]]
    answers, shown = await dialogue(service, terminal, [field], bad, good)
    assert complaint in shown
    assert isinstance(answers, dict)


async def test_an_optional_field_is_skipped_by_an_empty_line(
    service: InteractionService, terminal: Terminal
) -> None:
    """The pair of a required one."""
    fields = [field | {"required": False} for field in (TEXT, ONE, MANY)]
    answers, shown = await dialogue(service, terminal, fields, "\n", "\n", "\n")
    assert (answers, shown.count("[optional]")) == ({}, 3)


async def test_answers_over_the_budget_are_asked_for_again(
    service: InteractionService, terminal: Terminal
) -> None:
    """Contract: they stay pending."""
    answers, shown = await dialogue(
        service, terminal, [TEXT], "x" * 80 + "\n", "short\n", budget_bytes=80
    )
    assert answers == {"name": "short"}
    assert "of 80" in shown


async def test_a_line_that_the_terminal_cuts_is_not_taken(
    service: InteractionService, terminal: Terminal
) -> None:
    """Linux keeps 4095 bytes of a line, and drops the rest without a word."""
    answers, shown = await dialogue(service, terminal, [TEXT], "x" * 5000 + "\n", "short\n")
    assert answers == {"name": "short"}
    assert "less than 4095 bytes" in shown


async def test_ctrl_d_declines(service: InteractionService, terminal: Terminal) -> None:
    """On an empty line; in a text of several lines it ends the text."""
    outcome, _ = await dialogue(service, terminal, [TEXT], "\x04")
    assert outcome == "interaction_cancelled"
    note = TEXT | {"multiline": True}
    answers, _ = await dialogue(service, terminal, [note], "one\n", "\x04")
    assert answers == {"name": "one"}


async def test_what_was_typed_before_the_question_does_not_answer_it(
    service: InteractionService, terminal: Terminal
) -> None:
    """Security: it was meant for something else."""
    os.write(terminal.master, b"early\n")
    answers, _ = await dialogue(service, terminal, [TEXT], "late\n")
    assert answers == {"name": "late"}


async def test_hostile_labels_are_shown_escaped(
    service: InteractionService, terminal: Terminal
) -> None:
    """Security: no character of a tool moves the cursor or turns the text around."""
    nasty = TEXT | {"label": "a\u202eb\u200bc"}
    document = {
        "title": "x\u2066y",
        "blocks": [{"id": "f", "kind": "form", "title": "\ufefft", "fields": [nasty]}],
    }
    _, shown = await dialogue(
        service, terminal, [], "ok\n", document=document, owner="local/\x1b[2Ja"
    )
    assert not set(shown) & set("\x1b\u202e\u200b\u2066\ufeff")
    for part in ("a\\u{202e}b\\u{200b}c", "x\\u{2066}y", "\\u{feff}t", "local/\\x1b[2Ja"):
        assert part in shown


async def test_cancelling_takes_the_question_back_and_restores_the_terminal(
    service: InteractionService, history: History, terminal: Terminal
) -> None:
    """No thread waits on, a half-typed answer is gone, and the modes are as before."""
    modes = terminal.modes()
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    terminal.set_modes(modes)
    before = terminal.modes()
    descriptors = len(os.listdir("/proc/self/fd"))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, service)
            await terminal.until("  > ")
            assert terminal.modes() != before
            os.write(terminal.master, b"half an ans")
            await terminal.until("half an ans")
            nursery.cancel_scope.cancel()
    await terminal.until("(the question was taken back)")
    assert terminal.modes() == before
    fd = terminal.open()
    assert fd is not None
    with pytest.raises(BlockingIOError):
        os.read(fd, 100)
    os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert [item.state for item in await history.interactions("s1")] == ["cancelled"]


async def test_a_terminal_that_hangs_up_declines(history: History) -> None:
    """Nobody is there any more."""
    terminal = Terminal()
    service = InteractionService(history, TerminalAdapter(terminal.open))
    codes = []

    async def request() -> None:
        with pytest.raises(InteractionError) as caught:
            await ask(service)
        codes.append(caught.value.code)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(request)
            await terminal.until("  > ")
            terminal.close()
    assert codes == ["interaction_cancelled"]


async def test_questions_are_asked_one_at_a_time(
    service: InteractionService, terminal: Terminal
) -> None:
    """Two prompts at once could not be told apart."""
    names: list[str] = []

    async def request(name: str) -> None:
        answer = await ask(service, owner=name)
        names.append(f"{name}: {answer['answers']['name']}")

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(request, f"local/t{n}")
            for _ in range(3):
                shown = await terminal.until("  > ")
                assert shown.count("Question from") == 1
                asking = shown.split("Question from ")[1].split("\r\n")[0]
                os.write(terminal.master, f"{asking}\n".encode())
                await terminal.type("\n")
    assert sorted(names) == [f"local/t{n}: local/t{n}" for n in range(3)]


PROGRAM = """
import trio
from raw_exec.history import open_history
from raw_exec.interactions import *
async def main():
    form = {"id": "f", "kind": "form", "fields": [{"id": "n", "label": "Name", "kind": "text"}]}
    async with open_history() as history:
        await history.begin_session("s1")
        service = InteractionService(history, TerminalAdapter())
        try:
            answer = await service.request(owner="local/a", session="s1", tool_call_id="c",
                panel="p", document={"blocks": [form]}, budget_bytes=8192)
            print("answers", answer["answers"])
        except InteractionError as exc:
            print("code", exc.code)
trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("piped", ["stdin", "stderr", "both"])
def test_a_piped_run_says_unavailable_at_once(terminal: Terminal, piped: str) -> None:
    """Contract: interaction_unavailable immediately; nothing waits for a key."""
    side = terminal.open()
    assert side is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdin=side if piped == "stderr" else subprocess.DEVNULL,
        stderr=side if piped == "stdin" else subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(side)
    assert done.stdout == "code interaction_unavailable\n"


@pytest.mark.slow
async def test_a_run_at_a_terminal_asks(tmp_path: Path) -> None:
    """The pair of the test above: the whole program as a session leader with a terminal."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM])  # noqa: S606
    shown = ""
    try:
        with trio.fail_after(60):
            while "  > " not in shown:
                await trio.lowlevel.wait_readable(master)
                shown += os.read(master, 65536).decode()
            os.write(master, b"Ada\n")
            while "answers {'n': 'Ada'}" not in shown:
                await trio.lowlevel.wait_readable(master)
                shown += os.read(master, 65536).decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)  # noqa: ASYNC222 - it was just killed
        os.close(master)
    assert "answers {'n': 'Ada'}" in shown
