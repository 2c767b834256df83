"""ask_user through a session: answered, declined, impossible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.interactions import CallbackAdapter, Question
from toolbox import write_config

SECONDS = 60
COLOUR = {
    "id": "colour",
    "label": "Which?",
    "kind": "single_select",
    "options": [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}],
}


def _config(root: Path) -> raw_exec.Config:
    return raw_exec.load_config(write_config(root, ["builtin/ask_user"]))


async def _ask(
    root: Path, adapter: Any, arguments: dict[str, Any], **options: Any
) -> raw_exec.ToolResult:
    with trio.fail_after(SECONDS):
        async with (
            raw_exec.open_runtime(_config(root), cwd=root, interact=adapter) as runtime,
            runtime.open_session() as session,
        ):
            return await session.dispatch("ask_user", arguments, **options)


async def test_an_answer_is_one_json_block(tmp_path: Path) -> None:
    """Keys are the questions' ids; what was left out is absent."""
    seen: list[Question] = []

    def answer(question: Question, _problems: Any) -> dict[str, Any]:
        seen.append(question)
        return {"colour": "blue", "why": "calm"}

    why = {"id": "why", "label": "Why?", "kind": "text"}
    more = {"id": "more", "label": "More?", "kind": "text", "required": False}
    arguments = {"questions": [COLOUR, why, more], "title": "Paint"}
    result = await _ask(tmp_path, CallbackAdapter(answer), arguments)
    value = {"status": "answered", "answers": {"colour": "blue", "why": "calm"}}
    assert (result.is_error, list(result.content)) == (False, [{"type": "json", "value": value}])
    assert [(q.owner, q.document["title"]) for q in seen] == [("builtin/ask_user", "Paint")]
    assert seen[0].panel.startswith("builtin/ask_user#questions@call_")


@pytest.mark.parametrize(
    ("adapter", "options", "code"),
    [
        (None, {}, "interaction_unavailable"),
        (CallbackAdapter(lambda _question, _problems: None), {}, "interaction_cancelled"),
        (
            CallbackAdapter(lambda _question, _problems: {}),
            {"max_output_bytes": 16},
            "interaction_budget_too_small",
        ),
    ],
    ids=["nobody", "declined", "no room"],
)
async def test_no_answer_is_a_failed_result_with_its_code(
    tmp_path: Path, adapter: Any, options: dict[str, Any], code: str
) -> None:
    """The model is told why, and that it is final."""
    result = await _ask(tmp_path, adapter, {"questions": [COLOUR]}, **options)
    assert (result.is_error, result.code, result.origin) == (True, code, "tool")


async def test_questions_that_make_no_sense_are_refused_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    """What the schema can't say, validateArgs does, with a pointer."""

    def never(_question: Question, _problems: Any) -> dict[str, Any]:
        raise AssertionError

    bad = {"id": "a", "label": "?", "kind": "text", "options": COLOUR["options"]}
    result = await _ask(tmp_path, CallbackAdapter(never), {"questions": [COLOUR, bad]})
    assert (result.code, result.stage) == ("invalid_arguments", "validate_args")
    assert result.text.startswith("/questions/1/options: ")


async def test_the_clock_of_the_call_stands_still_while_a_person_thinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question may take longer than a handler may run; the handler's own time still counts."""
    from raw_exec.pool.calls import CallTimer

    left: list[float] = []
    scopes: list[trio.CancelScope] = []
    attach = CallTimer.attach

    def watch(self: CallTimer, scope: trio.CancelScope) -> None:
        scopes.append(scope)
        attach(self, scope)

    monkeypatch.setattr(CallTimer, "attach", watch)

    async def answer(_question: Question, _problems: Any) -> dict[str, Any]:
        left.append(scopes[-1].deadline)
        return {"colour": "red"}

    arguments = {"questions": [COLOUR]}
    result = await _ask(tmp_path, CallbackAdapter(answer), arguments, timeout_seconds=30)
    assert not result.is_error
    assert left == [float("inf")]
    assert scopes[-1].deadline < float("inf")
