"""Sessions through both facades: panels as they change, questions, and what a person selects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import raw_exec
import raw_exec.aio
import raw_exec.blocking
from raw_exec.interactions import Question
from raw_exec.panels import PanelView
from toolbox import write_config

pytestmark = pytest.mark.usefixtures("nothing_left")

LIST = "builtin/todo#todo"
ITEMS = {"mode": "replace", "todos": [{"label": "A", "status": "done"}, {"label": "B"}]}
ASKED = {
    "questions": [
        {"id": "why", "label": "Why?", "kind": "text"},
        {"id": "n", "label": "How many?", "kind": "text"},
    ]
}
ANSWERS = {"why": "because", "n": "2"}


@pytest.fixture
def tools(tmp_path: Path) -> raw_exec.Config:
    """Return a configuration with the reference tools for panels and questions."""
    return raw_exec.load_config(write_config(tmp_path, ["builtin/todo", "builtin/ask_user"]))


def _labels(result: raw_exec.ToolResult) -> list[str]:
    return [item["label"] for item in result.content[0]["value"]["todos"]]


class Person:
    """Answers wrongly first, then as asked; notes where it was asked."""

    def __init__(self) -> None:
        self.problems: list[int] = []
        self.threads: set[int] = set()

    def answer(self, question: Question, problems: tuple[Any, ...]) -> Mapping[str, Any]:
        """Return the answers to a question of ``ask_user``."""
        assert question.owner == "builtin/ask_user"
        self.threads.add(threading.get_ident())
        self.problems.append(len(problems))
        return ANSWERS if problems else {"why": "because"}


def test_an_asyncio_program_sees_panels_and_answers_questions(
    tools: raw_exec.Config, tmp_path: Path, cache: Path
) -> None:
    """Every callback runs in the program's own loop; the last state of a panel is shown."""
    person, shown, threads = Person(), [], set()

    async def steps() -> None:
        last = asyncio.Event()

        async def show(view: PanelView) -> None:
            threads.add(threading.get_ident())
            shown.append(view.revision)
            if view.revision == 2 and view.committed:
                last.set()

        async def answer(question: Question, problems: tuple[Any, ...]) -> Mapping[str, Any]:
            return person.answer(question, problems)

        async with (
            asyncio.timeout(60),
            raw_exec.aio.open_runtime(
                tools, cwd=tmp_path, cache_dir=cache, interact=answer
            ) as runtime,
            runtime.open_session("s", on_panel=show) as session,
        ):
            assert not (await session.dispatch("todo", ITEMS)).is_error
            action = await session.resolve_action(LIST, "clear_done")
            cleared = await session.run_action(action)
            assert isinstance(cleared, raw_exec.ToolResult)
            assert _labels(cleared) == ["B"]
            await last.wait()
            (view,) = await session.panels()
            assert (view.revision, await session.panel(LIST)) == (2, view)
            asked = await session.dispatch("ask_user", ASKED)
            assert asked.content[0]["value"] == {"status": "answered", "answers": ANSWERS}
            assert await session.questions() == ()

    asyncio.run(steps())
    assert shown == sorted(shown)
    assert person.problems == [0, 1]
    assert person.threads | threads == {threading.get_ident()}


def test_a_plain_program_sees_panels_and_answers_questions(
    tools: raw_exec.Config, tmp_path: Path, cache: Path
) -> None:
    """Callbacks run in threads, so that they may block; none runs in the caller's."""
    person, last = Person(), threading.Event()

    def show(view: PanelView) -> None:
        assert threading.get_ident() != here
        if view.revision == 2 and view.committed:
            last.set()

    here = threading.get_ident()
    with (
        raw_exec.blocking.open_runtime(
            tools, cwd=tmp_path, cache_dir=cache, interact=person.answer
        ) as runtime,
        runtime.open_session("s", on_panel=show) as session,
    ):
        assert not session.dispatch("todo", ITEMS).is_error
        cleared = session.run_action(session.resolve_action(LIST, "clear_done"))
        assert isinstance(cleared, raw_exec.ToolResult)
        assert _labels(cleared) == ["B"]
        assert last.wait(60)
        (view,) = session.panels()
        assert (view.revision, session.panel(LIST)) == (2, view)
        asked = session.dispatch("ask_user", ASKED)
        assert asked.content[0]["value"] == {"status": "answered", "answers": ANSWERS}
        assert session.questions() == ()
    assert person.problems == [0, 1]
    assert here not in person.threads


@pytest.mark.parametrize("facade", ["aio", "blocking"])
def test_where_nobody_answers_the_tool_is_told(
    tools: raw_exec.Config, tmp_path: Path, cache: Path, facade: str
) -> None:
    """At once, and not by waiting."""
    options: dict[str, Any] = {"cwd": tmp_path, "cache_dir": cache}

    async def in_asyncio() -> raw_exec.ToolResult:
        async with (
            asyncio.timeout(60),
            raw_exec.aio.open_runtime(tools, **options) as runtime,
            runtime.open_session() as session,
        ):
            return await session.dispatch("ask_user", ASKED)

    if facade == "aio":
        result = asyncio.run(in_asyncio())
    else:
        with (
            raw_exec.blocking.open_runtime(tools, **options) as runtime,
            runtime.open_session() as session,
        ):
            result = session.dispatch("ask_user", ASKED)
    assert (result.is_error, result.code) == (True, "interaction_unavailable")
