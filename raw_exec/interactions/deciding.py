"""What a submission does to a question: pure functions, run inside the history's transaction.

Order of the checks of a submission: known, own session, sent before under this key, still
pending, waited for here, in time, expected revision, answers fit the form, answers fit the
budget. The first that fails is what the sender is told.

Security: whether a question of another session is pending, or what it asks, is not told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..history.records import InteractionChange, InteractionRecord, StoredSubmission
from ..panels.errors import PanelError
from ..panels.forms import AnswersInvalid, Form, check_answers, check_form, encoded_bytes
from .errors import FAILURES, InteractionError
from .question import Acknowledgement
from .state import InteractionEvent, InteractionState, next_state

__all__ = ["Submission", "answer_bytes", "decide_event", "decide_submission", "find_form"]


def answer_bytes(answers: Mapping[str, Any]) -> int:
    """Return the room an answer takes in a call's output: the block ``ask_user`` returns."""
    return encoded_bytes({"status": "answered", "answers": answers})


def find_form(document: Mapping[str, Any]) -> Form:
    """Return the one form of a checked document.

    Raises:
        PanelError: ``panel_invalid``: it has none, or several.
    """
    found = [
        (index, block)
        for index, block in enumerate(document["blocks"])
        if block.get("kind") == "form"
    ]
    if len(found) != 1:
        message = f"a question needs exactly one form block, and this document has {len(found)}"
        raise PanelError("panel_invalid", message, "/blocks")
    index, block = found[0]
    return check_form(block, f"/blocks/{index}")


@dataclass(frozen=True, slots=True)
class Submission:
    """What was sent.

    Args:
        answers: Anything; ignored when ``cancel`` is set.
    """

    request_id: str
    session: str
    expected_revision: int
    key: str
    answers: Any
    cancel: bool = False

    def digest(self) -> str:
        """Return a digest of what it says, in which the order of keys does not matter."""
        body = {
            "answers": None if self.cancel else self.answers,
            "cancel": self.cancel,
            "revision": self.expected_revision,
        }
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def decide_submission(
    submission: Submission,
    record: InteractionRecord | None,
    stored: StoredSubmission | None,
    *,
    now: int,
    host: int,
) -> InteractionChange:
    """Return what a submission changes; its outcome is an acknowledgement or the refusal.

    Args:
        record: The question as stored.
        stored: The submission accepted earlier under the same key.
        now: Epoch milliseconds.
        host: The host that received it.
    """
    if record is None:
        return _refused("interaction_unknown", f"{submission.request_id!r}")
    if record.session_id != submission.session:
        return _refused("interaction_not_owned")
    if stored is not None:
        return _replayed(submission, stored)
    state = InteractionState(record.state)
    event = InteractionEvent.CANCEL if submission.cancel else InteractionEvent.ANSWER
    try:
        new = next_state(state, event)
    except InteractionError as exc:
        return InteractionChange(exc)
    if record.host != host:
        return _refused("interaction_elsewhere")
    if now >= record.expires_at:
        change = decide_event(record, InteractionEvent.DEADLINE, now)
        return replace(change, outcome=_error("interaction_expired"))
    if submission.expected_revision != record.revision:
        return _refused(
            "interaction_revision_conflict",
            f"expected {submission.expected_revision}, is {record.revision}",
        )
    answers = None
    if not submission.cancel:
        try:
            answers = _fitting_answers(record, submission.answers)
        except InteractionError as exc:
            return InteractionChange(exc)
    settled = replace(
        record, state=str(new), revision=record.revision + 1, settled_at=now, answers=answers
    )
    if submission.cancel:
        settled = replace(settled, reason="declined by the person who was asked")
    told = Acknowledgement(record.request_id, settled.state, settled.revision, now)
    kept = StoredSubmission(submission.key, submission.digest(), told.as_dict())
    return InteractionChange(told, settled, kept)


def decide_event(
    record: InteractionRecord | None, event: InteractionEvent, now: int, reason: str | None = None
) -> InteractionChange:
    """Return what an event that nobody submitted changes; its outcome is the record since then.

    A question that is settled already stays as it is.
    """
    if record is None or record.state != InteractionState.PENDING:
        return InteractionChange(record)
    new = next_state(InteractionState.PENDING, event)
    settled = replace(
        record, state=str(new), revision=record.revision + 1, settled_at=now, reason=reason
    )
    return InteractionChange(settled, settled)


def _fitting_answers(record: InteractionRecord, answers: Any) -> dict[str, Any]:
    try:
        checked = check_answers(find_form(record.document), answers)
    except AnswersInvalid as exc:
        raise InteractionError("answers_invalid", str(exc), problems=exc.problems) from exc
    size = answer_bytes(checked)
    if size > record.budget_bytes:
        raise _error("answers_over_budget", f"they take {size} bytes of {record.budget_bytes}")
    return dict(checked)


def _replayed(submission: Submission, stored: StoredSubmission) -> InteractionChange:
    if submission.digest() != stored.digest:
        return _refused("interaction_replay_conflict", f"{submission.key!r}")
    told = stored.acknowledgement
    return InteractionChange(
        Acknowledgement(told["requestId"], told["state"], told["revision"], told["at"])
    )


def _refused(code: str, detail: str | None = None) -> InteractionChange:
    return InteractionChange(_error(code, detail))


def _error(code: str, detail: str | None = None) -> InteractionError:
    message = FAILURES[code]
    return InteractionError(code, f"{message}: {detail}" if detail else message)
