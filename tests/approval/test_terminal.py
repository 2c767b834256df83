"""What a person sees and answers when a rule asks."""

from __future__ import annotations

import pytest

from raw_exec.approval import (
    AbortSignal,
    Answer,
    ApprovalRequest,
    TerminalApprover,
    normalise_answer,
    render_request,
)


def _request(**changes: object) -> ApprovalRequest:
    fields: dict[str, object] = {
        "identity": "local/append_notes",
        "name": "append_notes",
        "arguments": {"path": "a.txt"},
        "effects": None,
        "tool_call_id": "call_1",
        "signal": AbortSignal(),
        "rule": {"index": 0, "match": "local/*"},
    }
    return ApprovalRequest(**(fields | changes))  # type: ignore[arg-type]


async def test_the_request_has_the_fields_of_the_contract() -> None:
    """Seed 1, "Approval": one object, these names."""
    request = _request(effects={"files": []})
    assert set(request.as_dict()) == {"identity", "name", "arguments", "effects", "toolCallId"}
    assert not request.signal.aborted


async def test_arguments_and_effects_are_shown_apart() -> None:
    """Seed 1: the interface shows intended effects apart from the raw arguments."""
    effects = {"files": [{"path": "/w/a.txt", "operation": "write"}]}
    text = render_request(_request(effects=effects))
    arguments, shown = text.index("arguments, as"), text.index("intended effects")
    assert arguments < text.index("a.txt") < shown < text.index("/w/a.txt")


@pytest.mark.parametrize("char", ["\x1b", "\u202e", "\u200b", "\x9b", "\x07", "\r", "\ufeff"])
async def test_control_and_bidi_characters_are_escaped(char: str) -> None:
    """Security: what a person reads is what would run."""
    text = render_request(_request(arguments={"path": f"a{char}b"}, name=f"x{char}"))
    assert char not in text


async def test_a_plain_text_in_another_script_stays_readable() -> None:
    """The pair of the test above."""
    assert "Größe 日本" in render_request(_request(arguments={"path": "Größe 日本"}))


async def test_a_long_argument_is_shortened_with_a_mark() -> None:
    """A question must fit a screen, and must say that it does not show everything."""
    text = render_request(_request(arguments={"path": "x" * 10_000}))
    assert len(text) < 2_000
    assert "more characters" in text


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y\n"], Answer(True)),
        (["what\n", "yes\n"], Answer(True)),
        (["n\n"], Answer(False, "denied at the terminal")),
        (["\n", ""], Answer(False, "the terminal was closed before an answer")),
    ],
)
async def test_only_a_clear_yes_approves(lines: list[str], answer: Answer) -> None:
    """The end of input and anything else but yes do not approve."""
    shown: list[str] = []
    asked = iter(lines)
    assert await TerminalApprover(shown.append, lambda: next(asked))(_request()) == answer


@pytest.mark.parametrize(
    ("value", "allow"),
    [
        (True, True),
        ("allow", True),
        (Answer(True), True),
        (False, False),
        ("deny", False),
        (None, False),
        (1, False),
        ("yes", False),
        ({"allow": True}, False),
        (Answer(1), False),  # type: ignore[arg-type]
    ],
)
def test_a_mistaken_answer_never_allows(value: object, allow: bool) -> None:
    """Fail closed: only the three documented ways to allow do."""
    assert normalise_answer(value).allow is allow
