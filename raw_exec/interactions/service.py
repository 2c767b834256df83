"""Asks people questions for tools, and takes their answers.

Rules
1. A question is stored before it is shown, and its answer before anybody is told of it.
2. The wait belongs to the call: it ends with an answer, the deadline, or the call's
   cancellation, and is not disturbed by pages that come and go.
3. An answer is data for the tool. It never allows anything.
4. The budget check before showing takes the shortest answers that the form accepts: when they
   do not fit, nobody could answer. Longer answers that do not fit are refused one by one, and
   the person may shorten them.
"""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ..errors import InternalError
from ..history import History, HistoryError, InteractionRecord, epoch_ms
from ..panels.document import check_document
from ..panels.errors import PanelError
from ..panels.forms import smallest_answers
from ..values import NotJson, freeze, thaw
from .deciding import Submission, answer_bytes, decide_event, decide_submission, find_form
from .errors import FAILURES, InteractionError
from .question import Acknowledgement, Adapter, Question
from .state import InteractionEvent, InteractionState

__all__ = ["DEFAULT_TIMEOUT_MS", "MAX_PENDING", "MAX_TIMEOUT_MS", "InteractionService"]

DEFAULT_TIMEOUT_MS: Final = 30 * 60 * 1000
MAX_TIMEOUT_MS: Final = 24 * 60 * 60 * 1000
MAX_PENDING: Final = 16
"""Pending questions of one session."""
_MAX_KEY_CHARS = 128

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Wait:
    question: Question
    settled: InteractionRecord | None = None
    failure: HistoryError | None = None
    event: trio.Event = field(default_factory=trio.Event)

    def settle(self, record: InteractionRecord) -> None:
        if self.settled is None and record.state != InteractionState.PENDING:
            self.settled = record
            self.event.set()


class InteractionService:
    """The questions of one host.

    Args:
        history: Where they are stored; its sessions must have begun.
        adapter: Who brings them to people; ``None``: nobody can be asked.
        clock: Epoch milliseconds.
    """

    def __init__(
        self, history: History, adapter: Adapter | None, clock: Callable[[], int] = epoch_ms
    ) -> None:
        self._history = history
        self._adapter = adapter
        self._clock = clock
        self._waits: dict[str, _Wait] = {}
        self._closed = False

    # ------------------------------------------------------------ for tools

    async def request(
        self,
        *,
        owner: str,
        session: str,
        tool_call_id: str,
        panel: str,
        document: Any,
        timeout_ms: int | None = None,
        budget_bytes: int,
    ) -> dict[str, Any]:
        """Ask, and return ``{"status": "answered", "answers", "requestId"}``.

        If cancelled, the question is stored as cancelled and taken back from the person.

        Args:
            panel: Full panel ID.
            document: A panel document with exactly one form block.
            timeout_ms: 1 to 24 hours; 30 minutes by default.
            budget_bytes: Room in the call's output.

        Raises:
            InteractionError: There is no answer; see ``FAILURES`` and the panel codes.
            HistoryError: The question or what became of it could not be stored.
        """
        timeout = _checked_timeout(timeout_ms)
        question = self._question(
            owner, session, tool_call_id, panel, document, timeout, budget_bytes
        )
        adapter = self._adapter
        if adapter is None or self._closed or not adapter.can_ask(session):
            hint = "run it where a person can answer, for example at a terminal"
            raise InteractionError(
                "interaction_unavailable", FAILURES["interaction_unavailable"], hint=hint
            )
        smallest = answer_bytes(smallest_answers(question.form))
        if smallest > budget_bytes:
            message = f"the shortest answer takes {smallest} bytes, and {budget_bytes} are left"
            raise InteractionError("interaction_budget_too_small", message)
        if len(self.pending(session)) >= MAX_PENDING:
            message = f"{FAILURES['interaction_limit']}; at most {MAX_PENDING}"
            raise InteractionError("interaction_limit", message)
        record = await self._wait_for(adapter, _Wait(question))
        return _result(record)

    def _question(
        self,
        owner: str,
        session: str,
        tool_call_id: str,
        panel: str,
        document: Any,
        timeout_ms: int,
        budget_bytes: int,
    ) -> Question:
        try:
            checked = check_document(document)
            form = find_form(checked)
        except PanelError as exc:
            raise InteractionError(exc.code, str(exc)) from exc
        now = self._clock()
        return Question(
            request_id=f"ask_{secrets.token_hex(12)}",
            session=session,
            owner=owner,
            tool_call_id=tool_call_id,
            panel=panel,
            document=checked,
            form=form,
            revision=1,
            created_at=now,
            expires_at=now + timeout_ms,
            budget_bytes=budget_bytes,
        )

    async def _wait_for(self, adapter: Adapter, wait: _Wait) -> InteractionRecord:
        question = wait.question
        self._waits[question.request_id] = wait
        try:
            with trio.CancelScope(shield=True):
                await self._history.add_interaction(self._record(question))
            try:
                await self._until_settled(adapter, wait)
            finally:
                if wait.settled is None:
                    # Cancelled with its call, or the history failed.
                    reason = "the call was given up"
                    await self._settle(wait, InteractionEvent.CANCEL, reason)
        finally:
            del self._waits[question.request_id]
        if wait.settled is None:
            raise InternalError("internal", "a question ended without a state")
        return wait.settled

    async def _until_settled(self, adapter: Adapter, wait: _Wait) -> None:
        left = (wait.question.expires_at - self._clock()) / 1000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show, adapter, wait)
            with trio.move_on_after(max(0.0, left)):
                await wait.event.wait()
            nursery.cancel_scope.cancel()
        if wait.failure is not None:
            raise wait.failure
        if wait.settled is None:
            await self._settle(wait, InteractionEvent.DEADLINE)

    async def _show(self, adapter: Adapter, wait: _Wait) -> None:
        question = wait.question
        try:
            await adapter.ask(question, _BoundReply(self, question))
            return
        except InteractionError:
            pass  # most likely somebody else was faster
        except Exception:
            # A mistake in what shows questions ends this question and not the host.
            _log.exception("asking %s failed", question.request_id)
        try:
            reason = "what was asking the person failed"
            await self._settle(wait, InteractionEvent.INTERRUPT, reason)
        except HistoryError as exc:
            wait.failure = exc
            wait.event.set()

    async def _settle(
        self, wait: _Wait, event: InteractionEvent, reason: str | None = None
    ) -> None:
        """Store what an event leads to, unless the question is settled by then."""
        now = self._clock()
        with trio.CancelScope(shield=True):
            record = await self._history.change_interaction(
                wait.question.request_id,
                None,
                lambda record, _stored: decide_event(record, event, now, reason),
            )
        # Without a record its session was deleted, and nobody can answer it any more.
        wait.settle(record or self._record(wait.question, InteractionState.INTERRUPTED))

    def _record(self, question: Question, state: str = "pending") -> InteractionRecord:
        return InteractionRecord(
            request_id=question.request_id,
            session_id=question.session,
            host=self._history.host_id,
            tool_call_id=question.tool_call_id,
            owner=question.owner,
            panel=question.panel,
            document=question.document,
            budget_bytes=question.budget_bytes,
            state=state,
            revision=question.revision,
            created_at=question.created_at,
            expires_at=question.expires_at,
        )

    # ------------------------------------------------------------ for those who answer

    def pending(self, session: str | None = None) -> tuple[Question, ...]:
        """Return the pending questions, the oldest first, of one session or of all."""
        return tuple(
            wait.question
            for wait in self._waits.values()
            if wait.settled is None and session in (None, wait.question.session)
        )

    async def submit(
        self,
        request_id: str,
        *,
        expected_revision: int,
        idempotency_key: str,
        session: str,
        answers: Any = None,
        cancel: bool = False,
    ) -> Acknowledgement:
        """Answer a question, or decline to.

        The first valid submission counts. The same one sent again, under the same key, gets
        the same acknowledgement, also after a restart. A submission that began is stored even
        if its sender is cancelled.

        Raises:
            InteractionError: It is refused. ``answers_invalid`` and ``answers_over_budget``
                leave the question pending.
        """
        submission = _checked_submission(
            request_id, session, expected_revision, idempotency_key, answers, cancel
        )
        decide = functools.partial(
            decide_submission, submission, now=self._clock(), host=self._history.host_id
        )
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            if request_id not in self._waits:
                # Perhaps of a host that died: then it is interrupted, and not elsewhere.
                await self._history.sweep()
            outcome = await self._history.change_interaction(request_id, idempotency_key, decide)
            await self._tell(request_id)
        if isinstance(outcome, InteractionError):
            raise outcome
        if not isinstance(outcome, Acknowledgement):
            raise InternalError("internal", "a submission got no acknowledgement")
        return outcome

    async def _tell(self, request_id: str) -> None:
        """Wake the call that waits, if the question is settled now."""
        wait = self._waits.get(request_id)
        if wait is not None and wait.settled is None:
            record = await self._history.interaction(request_id)
            if record is not None:
                wait.settle(record)

    async def close(self) -> None:
        """Interrupt every pending question; the calls that wait are told. Twice is fine."""
        self._closed = True
        for wait in list(self._waits.values()):
            if wait.settled is None:
                reason = "the host ended before an answer"
                await self._settle(wait, InteractionEvent.INTERRUPT, reason)


class _BoundReply:
    """Answers one question for an adapter."""

    def __init__(self, service: InteractionService, question: Question) -> None:
        self._service = service
        self._question = question

    async def answer(self, answers: Any, *, key: str | None = None) -> Acknowledgement:
        return await self._send(key, answers=answers)

    async def cancel(self, *, key: str | None = None) -> Acknowledgement:
        return await self._send(key, cancel=True)

    async def _send(self, key: str | None, **body: Any) -> Acknowledgement:
        return await self._service.submit(
            self._question.request_id,
            expected_revision=self._question.revision,
            idempotency_key=key or secrets.token_hex(12),
            session=self._question.session,
            **body,
        )


def _checked_timeout(timeout_ms: object) -> int:
    if timeout_ms is None:
        return DEFAULT_TIMEOUT_MS
    if isinstance(timeout_ms, float) and timeout_ms.is_integer():
        timeout_ms = int(timeout_ms)
    if not isinstance(timeout_ms, int) or isinstance(timeout_ms, bool):
        raise InteractionError("interaction_invalid", "timeout_ms must be an integer")
    if not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        message = f"timeout_ms is {timeout_ms}; it must be between 1 and {MAX_TIMEOUT_MS}"
        raise InteractionError("interaction_invalid", message)
    return timeout_ms


def _checked_submission(
    request_id: str, session: str, revision: object, key: object, answers: Any, cancel: bool
) -> Submission:
    if not isinstance(revision, int) or isinstance(revision, bool):
        raise InteractionError("interaction_invalid", "expectedRevision must be an integer")
    if not isinstance(key, str) or not 1 <= len(key) <= _MAX_KEY_CHARS:
        message = f"idempotencyKey must be a string of 1 to {_MAX_KEY_CHARS} characters"
        raise InteractionError("interaction_invalid", message)
    if cancel is (answers is not None):
        raise InteractionError("interaction_invalid", "send either answers or cancel")
    try:
        return Submission(request_id, session, revision, freeze(key), freeze(answers), cancel)
    except NotJson as exc:
        raise InteractionError(
            "answers_invalid", str(exc.problem), problems=(exc.problem,)
        ) from exc


def _result(record: InteractionRecord) -> dict[str, Any]:
    if record.state == InteractionState.ANSWERED:
        return {
            "status": "answered",
            "answers": thaw(record.answers),
            "requestId": record.request_id,
        }
    code = f"interaction_{record.state}"
    message = FAILURES[code]
    raise InteractionError(code, f"{message}: {record.reason}" if record.reason else message)
