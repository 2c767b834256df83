"""The one error of this package."""

from __future__ import annotations

from typing import Final

from ..errors import Problem, RawExecError

__all__ = ["FAILURES", "InteractionError"]

FAILURES: Final = {
    # for the tool that asks
    "interaction_unavailable": "nobody can be asked here",
    "interaction_budget_too_small": "no answer would fit the call's output budget",
    "interaction_invalid": "the request or the submission is malformed",
    "interaction_limit": "the session has too many pending questions",
    "interaction_cancelled": "the question was cancelled",
    "interaction_expired": "nobody answered in time",
    "interaction_interrupted": "the host, or what was asking, ended before an answer",
    # for the one who answers
    "interaction_answered": "the question is answered already",
    "interaction_unknown": "there is no such question",
    "interaction_not_owned": "the question belongs to another session",
    "interaction_elsewhere": "another running host waits for the answer",
    "interaction_replay_conflict": "the key was used for another submission",
    "interaction_revision_conflict": "the question is at another revision",
    "answers_invalid": "the answers do not fit the form; the question stays pending",
    "answers_over_budget": "the answers do not fit the call's output; the question stays pending",
}
"""Every code beside those of panels, and what it means."""


class InteractionError(RawExecError):
    """A question can't be asked, got no answer, or a submission to it is refused.

    Args:
        code: A key of ``FAILURES``, or a panel code when the document is refused.
        problems: What is wrong with the answers, field by field.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.problems = problems
