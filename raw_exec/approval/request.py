"""The one request object of an approval, and what may be answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import trio

__all__ = [
    "AbortSignal",
    "Answer",
    "ApprovalRequest",
    "Approver",
    "NobodyToAsk",
    "normalise_answer",
]


class NobodyToAsk(Exception):
    """Raised by an approver that can reach nobody for this call: ``approval_required``."""


class AbortSignal:
    """Tells an approver that its answer is no longer wanted."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.reason: str | None = None

    @property
    def aborted(self) -> bool:
        """Whether the call has been given up."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return once the call has been given up."""
        await self._event.wait()

    def abort(self, reason: str) -> None:
        """Set the signal; the first reason stays."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What an approver is asked (seed 1, "Approval").

    Args:
        identity: The tool's policy identity, for example ``"local/append_notes"``.
        name: The name the model used.
        arguments: The original arguments, frozen.
        effects: The intended effects, frozen, or ``None`` when the tool declares none.
        tool_call_id: The call's ID.
        signal: Set when the call is given up while the question is open.
        rule: The rule that asks: index, match, and what it matched.
        changes: What the call changed on its copy-on-write view, when the question is whether
            to commit that: ``path``, ``action``, ``kind``, ``declared``. ``None`` when the
            question is whether to run it.
        change_count: How many there are; ``changes`` lists the first of very many.
        diff: The changes as a unified diff, escaped, cut with a mark when it is long.
    """

    identity: str
    name: str
    arguments: Any
    effects: Any | None
    tool_call_id: str
    signal: AbortSignal
    rule: dict[str, Any] | None = None
    changes: tuple[dict[str, Any], ...] | None = None
    change_count: int = 0
    diff: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the seed's fields under the seed's names, without the signal."""
        fields = {
            "identity": self.identity,
            "name": self.name,
            "arguments": self.arguments,
            "toolCallId": self.tool_call_id,
        }
        if self.effects is not None:
            fields["effects"] = self.effects
        if self.changes is not None:
            fields["changes"] = [dict(change) for change in self.changes]
            fields["changeCount"] = self.change_count
            fields["diff"] = self.diff
        return fields


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision about one request.

    Args:
        allow: Whether the handler may run.
        reason: Shown to the model and kept, when it says no.
    """

    allow: bool
    reason: str | None = None


AnswerLike: TypeAlias = "Answer | bool | Literal['allow', 'deny']"
Approver: TypeAlias = "Callable[[ApprovalRequest], Awaitable[AnswerLike] | AnswerLike]"


def normalise_answer(value: object) -> Answer:
    """Turn what an approver returned into an ``Answer``.

    Only ``True``, ``"allow"`` and ``Answer(allow=True)`` allow. Anything that is not a known
    answer denies: a mistake in a callback must not approve.
    """
    if isinstance(value, Answer):
        reason = value.reason if isinstance(value.reason, str) else None
        return Answer(value.allow is True, reason)
    if value is True or value == "allow":
        return Answer(True)
    if value is False or value == "deny":
        return Answer(False)
    return Answer(False, f"approver returned {value!r:.60}, which is neither 'allow' nor 'deny'")
