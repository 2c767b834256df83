"""What a submission does, as a pure function: each refusal, and which of several comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raw_exec.history import InteractionChange, InteractionRecord, StoredSubmission
from raw_exec.interactions import Acknowledgement, InteractionError, InteractionEvent, answer_bytes
from raw_exec.interactions.deciding import Submission, decide_event, decide_submission, find_form
from raw_exec.panels.document import check_document
from raw_exec.panels.errors import PanelError
from tests.interactions.support import DOCUMENT, FORM, SMALLEST

RECORD = InteractionRecord(
    request_id="ask_1",
    session_id="s1",
    host=1,
    tool_call_id="c1",
    owner="local/a",
    panel="local/a#p",
    document=check_document(DOCUMENT),
    budget_bytes=100,
    state="pending",
    revision=1,
    created_at=100,
    expires_at=200,
)
ANSWER = Submission("ask_1", "s1", 1, "k", {"name": "Ada", "days": ["tue", "mon"]})
TOLD = Acknowledgement("ask_1", "answered", 2, 150)


def decide(
    submission: Submission = ANSWER,
    record: InteractionRecord | None = RECORD,
    stored: StoredSubmission | None = None,
    now: int = 150,
    host: int = 1,
) -> InteractionChange:
    return decide_submission(submission, record, stored, now=now, host=host)


def code_of(change: InteractionChange) -> str:
    assert isinstance(change.outcome, InteractionError)
    assert change.submission is None
    return change.outcome.code


def test_an_answer_is_stored_with_its_acknowledgement() -> None:
    """The record, the submission and what is told, in one change."""
    assert decide() == InteractionChange(
        TOLD,
        replace(
            RECORD,
            state="answered",
            revision=2,
            settled_at=150,
            answers={"name": "Ada", "days": ["mon", "tue"]},
        ),
        StoredSubmission("k", ANSWER.digest(), TOLD.as_dict()),
    )


def test_declining_is_stored_as_cancelled() -> None:
    """Contract: answers or cancel."""
    change = decide(replace(ANSWER, answers=None, cancel=True))
    assert change.outcome == Acknowledgement("ask_1", "cancelled", 2, 150)
    assert change.record is not None
    assert (change.record.state, change.record.answers) == ("cancelled", None)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"record": None}, "interaction_unknown"),
        ({"submission": replace(ANSWER, session="s2")}, "interaction_not_owned"),
        ({"record": replace(RECORD, state="answered", revision=2)}, "interaction_answered"),
        ({"record": replace(RECORD, state="cancelled", revision=2)}, "interaction_cancelled"),
        ({"record": replace(RECORD, state="expired", revision=2)}, "interaction_expired"),
        ({"record": replace(RECORD, state="interrupted", revision=2)}, "interaction_interrupted"),
        ({"host": 2}, "interaction_elsewhere"),
        ({"submission": replace(ANSWER, expected_revision=2)}, "interaction_revision_conflict"),
        ({"submission": replace(ANSWER, answers={})}, "answers_invalid"),
        ({"submission": replace(ANSWER, answers={"name": "x" * 90})}, "answers_over_budget"),
        (
            {"stored": StoredSubmission("k", "other", TOLD.as_dict())},
            "interaction_replay_conflict",
        ),
    ],
)
def test_a_refused_submission_changes_nothing(changes: dict[str, Any], code: str) -> None:
    """Contract: a clear code each; invalid and over-budget answers stay pending."""
    change = decide(**changes)
    assert (code_of(change), change.record) == (code, None)


def test_an_answer_after_the_deadline_expires_the_question() -> None:
    """Even if nothing has noticed the deadline yet."""
    change = decide(now=200)
    assert code_of(change) == "interaction_expired"
    assert change.record == replace(RECORD, state="expired", revision=2, settled_at=200)
    assert decide(now=199).outcome == replace(TOLD, at=199)


def test_the_same_submission_again_gets_the_same_acknowledgement() -> None:
    """Contract: also when the question is settled and its time is long over."""
    stored = StoredSubmission("k", ANSWER.digest(), TOLD.as_dict())
    settled = replace(RECORD, state="answered", revision=2, settled_at=150)
    change = decide(record=settled, stored=stored, now=10_000, host=7)
    assert change == InteractionChange(TOLD)


@pytest.mark.parametrize(
    "other",
    [
        replace(ANSWER, answers={"name": "Bob"}),
        replace(ANSWER, answers=None, cancel=True),
        replace(ANSWER, expected_revision=2),
    ],
)
def test_another_submission_under_a_used_key_is_refused(other: Submission) -> None:
    """Contract: a conflicting replay."""
    stored = StoredSubmission("k", ANSWER.digest(), TOLD.as_dict())
    assert code_of(decide(other, stored=stored)) == "interaction_replay_conflict"


def test_the_order_of_keys_is_no_conflict() -> None:
    """JSON objects have none."""
    again = replace(ANSWER, answers={"days": ["tue", "mon"], "name": "Ada"})
    assert again.digest() == ANSWER.digest()


def test_another_session_is_told_the_same_whatever_the_state() -> None:
    """Security: neither an acknowledgement nor the state of somebody else's question."""
    foreign = replace(ANSWER, session="s2")
    stored = StoredSubmission("k", ANSWER.digest(), TOLD.as_dict())
    for record in (RECORD, replace(RECORD, state="answered"), replace(RECORD, state="expired")):
        assert code_of(decide(foreign, record, stored)) == "interaction_not_owned"


def test_the_budget_is_that_of_the_block_a_tool_returns() -> None:
    """At the limit it fits, one byte more does not."""
    answers = {"name": "x" * 20}
    exact = replace(RECORD, budget_bytes=answer_bytes(answers))
    assert decide(replace(ANSWER, answers=answers), exact).outcome == TOLD
    short = replace(exact, budget_bytes=exact.budget_bytes - 1)
    assert code_of(decide(replace(ANSWER, answers=answers), short)) == "answers_over_budget"


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (InteractionEvent.CANCEL, "cancelled"),
        (InteractionEvent.DEADLINE, "expired"),
        (InteractionEvent.INTERRUPT, "interrupted"),
    ],
)
def test_an_event_settles_a_pending_question_and_no_other(
    event: InteractionEvent, state: str
) -> None:
    """The first that is stored counts."""
    settled = replace(RECORD, state=state, revision=2, settled_at=150, reason="why")
    assert decide_event(RECORD, event, 150, "why") == InteractionChange(settled, settled)
    answered = replace(RECORD, state="answered", revision=2)
    assert decide_event(answered, event, 150, "why") == InteractionChange(answered)
    assert decide_event(None, event, 150) == InteractionChange(None)


@pytest.mark.parametrize(
    "blocks", [[], [FORM, FORM | {"id": "ask2"}], [{"id": "m", "kind": "markdown", "text": "x"}]]
)
def test_a_question_has_exactly_one_form(blocks: list[Any]) -> None:
    """Contract: exactly one form block."""
    with pytest.raises(PanelError) as caught:
        find_form({"blocks": blocks})
    assert (caught.value.code, caught.value.pointer) == ("panel_invalid", "/blocks")


def test_other_blocks_may_stand_around_the_form() -> None:
    """The pair of the test above."""
    text = {"id": "m", "kind": "markdown", "text": "x"}
    assert find_form({"blocks": [text, FORM]}).id == "ask"
    assert answer_bytes(SMALLEST) == len('{"status":"answered","answers":{"name":"x"}}')
