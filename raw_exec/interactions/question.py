"""A question as an adapter sees it, and what an adapter is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..panels.forms import Form

__all__ = ["Acknowledgement", "Adapter", "Question", "Reply"]


@dataclass(frozen=True, slots=True)
class Question:
    """A pending question.

    Args:
        document: The whole checked panel document, frozen; text around the form may matter.
        form: Its one form block.
        revision: What a submission must expect.
        created_at: Epoch milliseconds.
        expires_at: Epoch milliseconds.
        budget_bytes: Room for the answer, as ``answer_bytes`` counts it.
    """

    request_id: str
    session: str
    owner: str
    tool_call_id: str
    panel: str
    document: Mapping[str, Any]
    form: Form
    revision: int
    created_at: int
    expires_at: int
    budget_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return what a page needs to show the question."""
        return {
            "requestId": self.request_id,
            "session": self.session,
            "owner": self.owner,
            "toolCallId": self.tool_call_id,
            "panel": self.panel,
            "document": self.document,
            "revision": self.revision,
            "createdAt": self.created_at,
            "expiresAt": self.expires_at,
            "budgetBytes": self.budget_bytes,
        }


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the one who answered is told, now and whenever the same is sent again.

    Args:
        state: ``answered`` or ``cancelled``.
        revision: The question's revision since then.
        at: Epoch milliseconds.
    """

    request_id: str
    state: str
    revision: int
    at: int

    def as_dict(self) -> dict[str, Any]:
        """Return it under the contract's names."""
        return {
            "requestId": self.request_id,
            "state": self.state,
            "revision": self.revision,
            "at": self.at,
        }


class Reply(Protocol):
    """How an adapter answers the question it was given."""

    async def answer(self, answers: Any, *, key: str | None = None) -> Acknowledgement:
        """Submit answers.

        Raises:
            InteractionError: ``answers_invalid`` and ``answers_over_budget`` leave the
                question pending; anything else means that it is settled.
        """
        ...

    async def cancel(self, *, key: str | None = None) -> Acknowledgement:
        """Decline to answer."""
        ...


class Adapter(Protocol):
    """Brings questions to a person."""

    def can_ask(self, session: str) -> bool:
        """Whether somebody can be asked now. If not, the tool is told so at once."""
        ...

    async def ask(self, question: Question, reply: Reply) -> None:
        """Show a question; cancelled as soon as it is settled, by whomever.

        Returning early leaves the question pending: a page that lost its person can return,
        and submit to the service when somebody is back. Raising interrupts the question.
        """
        ...
