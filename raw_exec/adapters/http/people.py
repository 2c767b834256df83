"""Bringing approvals and questions of a call to its client, over its events.

Security: an answer to a question is data for the tool and allows nothing. An approval is
given by whoever holds the key that made the call, and only where the operator said that this
is enough; everywhere else such a call is refused with ``approval_required``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ...approval import Answer, ApprovalRequest, NobodyToAsk
from ...interactions import Question, Reply
from ...values import thaw
from .answers import encode
from .calls import CallBook, HostedCall, PendingApproval

__all__ = ["ClientAdapter", "client_approver", "describe_question"]


def describe_question(question: Question) -> dict[str, Any]:
    """Return what a client is told of a question: what the answer to it has to name."""
    return {
        "request_id": question.request_id,
        "panel": question.panel,
        "document": thaw(question.document),
        "revision": question.revision,
        "expires_at": question.expires_at,
    }


class ClientAdapter:
    """Questions of tools become events of their call.

    Args:
        book: The calls of the principal.
        in_session: Return the live calls of a session, by the name that the runtime has for it.
    """

    def __init__(self, book: CallBook, in_session: Callable[[str], tuple[HostedCall, ...]]) -> None:
        self._book = book
        self._in_session = in_session

    def can_ask(self, session: str) -> bool:
        """Whether the client of one of the session's calls answers questions."""
        return any(call.interactive for call in self._in_session(session))

    async def ask(self, question: Question, reply: Reply) -> None:
        """Show the question until it is settled; the answer comes as a request of its own."""
        call = self._book.find_live(question.tool_call_id)
        if call is None or not call.interactive:
            await reply.cancel()
            return
        told = encode(describe_question(question))
        call.events.put("question", question.request_id, told)
        try:
            await trio.sleep_forever()
        finally:
            call.events.drop("question", question.request_id)


def client_approver(
    book: CallBook, ask_seconds: float
) -> Callable[[ApprovalRequest], Awaitable[Answer]]:
    """Return an approver that asks the client which made the call.

    Args:
        book: The calls of the principal.
        ask_seconds: How long it waits.
    """

    async def approve(request: ApprovalRequest) -> Answer:
        call = book.find_live(request.tool_call_id)
        if call is None or not call.interactive:
            raise NobodyToAsk
        pending = PendingApproval()
        call.approval = pending
        told = {"approval_id": pending.id, **request.as_dict(), "rule": request.rule}
        del told["toolCallId"]  # the events are those of this one call
        call.events.put("approval", "", encode(told))
        try:
            with trio.move_on_after(ask_seconds):
                await pending.answered.wait()
        finally:
            call.approval = None
            call.events.drop("approval", "")
        if pending.answer is None:
            return Answer(False, f"nobody answered within {ask_seconds:g} s")
        return pending.answer

    return approve
