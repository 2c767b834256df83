"""A session: the home of panels, questions, background processes and receipts.

Rules
1. A call's result, the panel revisions that it commits and the receipts of its hooks are
   stored in one transaction, before the caller has the result.
2. A session belongs to one runtime and one task at a time; several of its calls may run.
3. What a person selects on a panel goes through the same steps as a call of the model.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from ..dispatch import Call, ToolResult
from ..history import History, Receipt, SessionRecord, epoch_ms
from ..history import PanelRevision as StoredPanel
from ..hooks import HookIds, HookReceipt, SessionDecision
from ..interactions import Acknowledgement, InteractionError, InteractionService, Question
from ..interactions.requests import answer_question_request
from ..jobs import JobService
from ..manifest import PanelDeclaration
from ..panels import (
    PanelBoard,
    PanelCall,
    PanelError,
    PanelRevision,
    PanelView,
    PromptAction,
    ResolvedAction,
    ResponseAction,
    ToolAction,
    resolve_action,
)
from ..values import NotJson, freeze

if TYPE_CHECKING:
    from ..runtime import Runtime


__all__ = ["Session"]


class Session:
    """An open session. Use ``Runtime.open_session``."""

    def __init__(
        self,
        runtime: Runtime,
        record: SessionRecord,
        history: History,
        questions: InteractionService,
        board: PanelBoard,
        jobs: JobService,
        cwd: str,
    ) -> None:
        self.id = record.session_id
        self.history = history
        self._runtime = runtime
        self._questions = questions
        self._board = board
        self._jobs = jobs
        self._cwd = cwd

    # ------------------------------------------------------------ calls

    @property
    def jobs(self) -> JobService:
        """The background processes of this session."""
        return self._jobs

    async def dispatch(
        self,
        name: str,
        arguments: Any,
        *,
        cwd: str | os.PathLike[str] | None = None,
        max_output_bytes: int | None = None,
        tool_call_id: str | None = None,
        source: str = "model",
        timeout_seconds: float | None = None,
        turn_id: str | None = None,
        dry_run: bool = False,
    ) -> ToolResult:
        """Take one call through every step, with the panels and questions of this session.

        See ``RuntimeTools.dispatch``.

        Args:
            turn_id: The turn that it belongs to, for hooks.

        Raises:
            ConfigError: ``cwd`` is not a directory, or an option is out of range.
            HistoryError: The call or its result can't be stored. If the handler has run, what
                it did is done; only the record of it is missing.
        """
        try:
            arguments = told = freeze(arguments)
        except NotJson:
            told = None  # the schema stage says what is wrong with them
        call = self._runtime.new_call(
            name,
            arguments,
            self._cwd if cwd is None else cwd,
            max_output_bytes,
            tool_call_id,
            source,
            timeout_seconds,
        )
        call.home, call.session_id, call.turn_id = self, self.id, turn_id
        call.dry_run = dry_run
        tool = self._runtime.loaded.get(name)
        identity = None if tool is None else tool.identity
        if identity is not None:
            call.panels = self._board.open_call(identity, call.tool_call_id)
        number = await self.history.begin_call(
            self.id,
            call.tool_call_id,
            identity=identity or "",
            name=name,
            arguments=told,
            source=source,
        )
        try:
            result = await self._runtime.run_call(call)
        except BaseException:
            with trio.CancelScope(shield=True):
                await self._store(number, call, None)
            raise
        # Not cancellable: the handler has run, and its panels are shown.
        with trio.CancelScope(shield=True):
            await self._store(number, call, result)
        return result

    async def _store(self, number: int, call: Call, result: ToolResult | None) -> None:
        panels = call.panels
        revisions = () if panels is None else panels.settle()
        receipts = [_of_hook(receipt, self._now()) for receipt in call.receipts]
        if panels is not None:
            receipts += _of_rejections(panels, call.tool_call_id)
        await self.history.end_call(
            number,
            content=() if result is None else result.content,
            is_error=result is None or result.is_error,
            code="aborted" if result is None else result.code,
            stage=call.stage if result is None else result.stage,
            panels=[_stored(revision) for revision in revisions],
            receipts=receipts,
        )

    async def ask(self, call: Call, params: Any) -> Any:
        """Answer ``interactions.request`` of a running call; for the runtime."""
        return await answer_question_request(
            self._questions,
            self._board,
            params,
            owner=call.chosen_tool().identity,
            session=self.id,
            tool_call_id=call.tool_call_id,
            budget_bytes=call.max_output_bytes,
            timer=call.timer,
        )

    def _now(self) -> int:
        return epoch_ms()

    # ------------------------------------------------------------ events of an agent

    async def start(self, *, source: str = "startup") -> SessionDecision:
        """Tell hooks of ``SessionStart``.

        Args:
            source: Why it starts, for example ``"startup"`` or ``"resume"``.
        """
        return await self._event("SessionStart", {"source": source}, None)

    async def submit_prompt(self, prompt: str, *, turn_id: str | None = None) -> SessionDecision:
        """Ask the hooks of ``UserPromptSubmit`` whether a prompt may go to the model."""
        return await self._event("UserPromptSubmit", {"prompt": prompt}, turn_id)

    async def stop(
        self, *, turn_id: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> SessionDecision:
        """Tell hooks of ``Stop``: the model has finished its turn."""
        return await self._event("Stop", facts or {}, turn_id)

    async def end(self, *, reason: str = "ended") -> SessionDecision:
        """Tell hooks of ``SessionEnd``. The session stays open until its block is left."""
        return await self._event("SessionEnd", {"reason": reason}, None)

    async def _event(
        self, event: str, facts: Mapping[str, Any], turn_id: str | None
    ) -> SessionDecision:
        ids = HookIds(session_id=self.id, turn_id=turn_id)
        decision = await self._runtime.hooks.session_event(event, facts, ids, cwd=self._cwd)
        if decision.receipts:
            now = self._now()
            kept = [_of_hook(receipt, now) for receipt in decision.receipts]
            with trio.CancelScope(shield=True):
                await self.history.add_receipts(self.id, None, kept)
        return decision

    # ------------------------------------------------------------ panels

    def panels(self) -> tuple[PanelView, ...]:
        """Return the panels with data, in the order in which they got it."""
        return self._board.views()

    def panel(self, panel_id: str) -> PanelView:
        """Return one panel by its full ID, ``<tool identity>#<panel id>``.

        Raises:
            PanelError: ``panel_unknown``.
        """
        return self._board.view(panel_id)

    def reminder(self) -> str:
        """Return what to tell the model of ``summary`` panels after a compaction, or ``""``."""
        return self._board.reminder()

    def resolve_action(
        self,
        panel_id: str,
        action_id: str,
        *,
        block: str | None = None,
        item: str | None = None,
        revision: int | None = None,
    ) -> ResolvedAction:
        """Return what a person's selection means; ``confirm`` is to be asked first.

        A response is looked up in the document of the panel's pending question, if there is
        one: that, and not the last update, is what the person answers.

        Raises:
            PanelError: There is no such panel or action, or it changed since ``revision``.
        """
        view = self._asking(panel_id, action_id) or self._board.view(panel_id)
        return resolve_action(view, action_id, block=block, item=item, revision=revision)

    def _asking(self, panel_id: str, action_id: str) -> PanelView | None:
        """Return the panel as its pending question shows it, for an action that responds."""
        for question in self.questions():
            if question.panel == panel_id:
                declaration, _ = self._board.resolve(
                    question.owner, question.tool_call_id, panel_id
                )
                if any(a.id == action_id and a.kind == "response" for a in declaration.actions):
                    return _as_view(question, declaration)
        return None

    async def run_action(
        self,
        action: ResolvedAction,
        *,
        answers: Any = None,
        idempotency_key: str | None = None,
    ) -> str | ToolResult | Acknowledgement:
        """Do what a person selected, after they have confirmed what is to be confirmed.

        Args:
            action: From ``resolve_action``.
            answers: For a response that submits.
            idempotency_key: For a response; made up by default.

        Returns:
            The drafted prompt; or the outcome of the tool's call, where nothing counts as
            approved; or the acknowledgement of a response.

        Raises:
            InteractionError: The response is refused.
            PanelError: The tool is not selected any more.
        """
        if isinstance(action, PromptAction):
            return action.text
        if isinstance(action, ToolAction):
            tool = self._runtime.loaded.by_identity(action.owner)
            if tool is None:
                raise PanelError("panel_not_owned", f"{action.owner} is not selected here")
            return await self.dispatch(tool.name, action.arguments, source="user_action")
        return await self._respond(action, answers, idempotency_key)

    async def _respond(
        self, action: ResponseAction, answers: Any, key: str | None
    ) -> Acknowledgement:
        for question in self.questions():
            if question.panel == action.panel:
                return await self.answer(
                    question.request_id,
                    expected_revision=question.revision,
                    idempotency_key=key or secrets.token_hex(12),
                    answers=answers if action.response == "submit" else None,
                    cancel=action.response == "cancel",
                )
        message = f"no question is pending in panel {action.panel!r:.200}"
        raise InteractionError("interaction_unknown", message)

    # ------------------------------------------------------------ questions

    def questions(self) -> tuple[Question, ...]:
        """Return the pending questions of this session, the oldest first."""
        return self._questions.pending(self.id)

    async def answer(
        self,
        request_id: str,
        *,
        expected_revision: int,
        idempotency_key: str,
        answers: Any = None,
        cancel: bool = False,
    ) -> Acknowledgement:
        """Answer a question of this session, or decline to; see ``InteractionService.submit``.

        Raises:
            InteractionError: It is refused.
        """
        return await self._questions.submit(
            request_id,
            expected_revision=expected_revision,
            idempotency_key=idempotency_key,
            session=self.id,
            answers=answers,
            cancel=cancel,
        )


def _stored(revision: PanelRevision) -> StoredPanel:
    return StoredPanel(
        panel=revision.id,
        revision=revision.revision,
        document=revision.as_dict(),
        at=revision.at,
        state=revision.state,
        tool_call_id=revision.tool_call_id,
    )


def _as_view(question: Question, declaration: PanelDeclaration) -> PanelView:
    chat = declaration.placement == "chat"
    revision = PanelRevision(
        owner=question.owner,
        panel=declaration.id,
        instance=question.tool_call_id if chat else None,
        revision=question.revision,
        state="open",
        document=freeze(question.document),
        at=question.created_at,
        tool_call_id=question.tool_call_id,
    )
    return PanelView(declaration, revision, committed=False)


def _of_hook(receipt: HookReceipt, at: int) -> Receipt:
    return Receipt("hook", receipt.as_dict(), at, receipt.tool_call_id)


def _of_rejections(panels: PanelCall, tool_call_id: str) -> list[Receipt]:
    kept = [
        Receipt(
            "panel_rejected",
            {
                "panel": item.panel,
                "code": item.code,
                "message": item.message,
                "pointer": item.pointer,
            },
            item.at,
            tool_call_id,
        )
        for item in panels.rejections
    ]
    more = panels.rejected_count - len(kept)
    if more > 0:
        kept.append(
            Receipt("panel_rejected", {"more": more}, panels.rejections[-1].at, tool_call_id)
        )
    return kept
