"""Questions of a session with real workers: who answers, when, and what becomes of the call."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import raw_exec
from raw_exec.history import InteractionRecord
from raw_exec.interactions import CallbackAdapter, InteractionError, Question, Reply
from raw_exec.panels import PanelError, PanelView, ResponseAction
from raw_exec.sessions import Session
from tests.interactions.support import Page
from tests.sessions.support import (
    LANGUAGES,
    PANEL,
    PANELS,
    SECONDS,
    opened,
    question,
    replace,
    steps,
    steps_tool,
)
from toolbox import write_config

ASK = ["ask", question()]


def one_tool(root: Path, language: str = "python", **panel: Any) -> None:
    steps_tool(root, language, panels=[{**PANELS[0], **panel}])
    write_config(root, ["t"])


async def only_question(session: Session) -> InteractionRecord:
    (found,) = await session.history.interactions(session.id)
    return found


# ---------------------------------------------------------------- what becomes of it


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_question_that_nobody_answers_in_time_expires(
    tmp_path: Path, language: str
) -> None:
    """The handler is told; the person's page is taken back."""
    one_tool(tmp_path, language)
    page = Page()
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=page) as session:
            assert await steps(session, ["ask", question(timeout_ms=1)]) == ["interaction_expired"]
            found = await only_question(session)
    assert (found.state, page.taken_back) == ("expired", [found.request_id])


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_question_goes_with_its_call(tmp_path: Path, language: str) -> None:
    """Cancelling the turn cancels the request, and an answer after that is refused."""
    one_tool(tmp_path, language)
    page = Page()
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=page) as session:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(steps, session, ASK)
                asked, reply = await page.next()
                nursery.cancel_scope.cancel()
            found = await only_question(session)
            (call,) = await session.history.calls("s")
            with pytest.raises(InteractionError) as late:
                await reply.answer({"a": "late"})
    assert (found.state, call.code, late.value.code) == (
        "cancelled",
        "aborted",
        "interaction_cancelled",
    )
    assert page.taken_back == [asked.request_id]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_question_whose_adapter_fails_is_interrupted(tmp_path: Path, language: str) -> None:
    """A mistake in what shows questions ends the question and not the host."""
    one_tool(tmp_path, language)

    class Broken(Page):
        async def ask(self, question: Question, reply: Reply) -> None:
            raise ValueError("no page")

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=Broken()) as session:
            assert await steps(session, ASK) == ["interaction_interrupted"]
            assert (await only_question(session)).state == "interrupted"


@pytest.mark.parametrize("tool", ["ask_user", "t"])
@pytest.mark.parametrize("kind", ["expired", "interrupted"])
async def test_every_end_without_an_answer_is_a_failed_result_of_ask_user(
    tmp_path: Path, kind: str, tool: str
) -> None:
    """Terminal: the result has the code, and the status says that it is the tool's error."""
    steps_tool(tmp_path)
    write_config(tmp_path, ["builtin/ask_user", "t"])
    form = question()["document"]["blocks"][0]["fields"]
    timeout = {"timeout_ms": 1} if kind == "expired" else {}
    arguments: dict[str, Any] = {"questions": form, **timeout}
    if tool == "t":
        arguments = {"steps": [["ask", question(**timeout)]]}

    class Failing(Page):
        async def ask(self, question: Question, reply: Reply) -> None:
            if kind == "interrupted":
                raise ValueError("no page")
            await trio.sleep_forever()

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=Failing()) as session:
            result = await session.dispatch(tool, arguments)
    code = f"interaction_{kind}"
    if tool == "ask_user":
        assert (result.is_error, result.code, result.origin) == (True, code, "tool")
        assert result.detail == {"unanswered": code}
    else:
        assert (result.is_error, result.content[0]["value"]) == (False, [code])


@pytest.mark.parametrize("language", LANGUAGES)
async def test_without_a_session_nobody_can_be_asked(tmp_path: Path, language: str) -> None:
    """interaction_unavailable at once, also where an adapter is there."""
    one_tool(tmp_path, language)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path, interact=Page()) as runtime:
            result = await runtime.dispatch("t", {"steps": [ASK, ["get", "p"]]})
    assert result.content[0]["value"] == ["interaction_unavailable", "panel_closed_context"]


async def test_a_client_that_is_away_can_not_be_asked(tmp_path: Path) -> None:
    """At once: nothing is stored, nothing waits."""
    one_tool(tmp_path)
    page = Page()
    page.here = False
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=page) as session:
            assert await steps(session, ASK) == ["interaction_unavailable"]
            assert await session.history.interactions("s") == ()


# ---------------------------------------------------------------- who answers


async def test_of_two_answers_at_the_same_instant_one_counts(tmp_path: Path) -> None:
    """The tool gets the one that was acknowledged; the other is told that it came late."""
    one_tool(tmp_path)
    page = Page()
    acknowledged: list[str] = []
    refused: list[str] = []
    got: list[Any] = []

    async def answer(session: Session, asked: Question, text: str) -> None:
        try:
            await session.answer(
                asked.request_id,
                expected_revision=asked.revision,
                idempotency_key=text,
                answers={"a": text},
            )
        except InteractionError as exc:
            refused.append(exc.code)
        else:
            acknowledged.append(text)

    with trio.fail_after(SECONDS):
        async with (
            opened(tmp_path, interact=page) as session,
            trio.open_nursery() as nursery,
        ):

            async def call() -> None:
                got.extend(await steps(session, ASK))

            nursery.start_soon(call)
            asked, _ = await page.next()
            for text in ("one", "two"):
                nursery.start_soon(answer, session, asked, text)
    assert (len(acknowledged), refused) == (1, ["interaction_answered"])
    assert got == [{"a": acknowledged[0]}]


async def test_another_session_can_not_answer(tmp_path: Path) -> None:
    """It does not see the question either; the question stays pending for its own."""
    one_tool(tmp_path)
    page = Page()
    config = raw_exec.load_config(tmp_path / "config.json")
    body = {"expected_revision": 1, "answers": {"a": "x"}}
    with trio.fail_after(SECONDS):
        async with (
            raw_exec.open_runtime(config, cwd=tmp_path, interact=page) as runtime,
            runtime.open_session("s") as session,
            runtime.open_session("other") as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(steps, session, ASK)
            asked, _ = await page.next()
            assert (len(session.questions()), other.questions()) == (1, ())
            with pytest.raises(InteractionError) as caught:
                await other.answer(asked.request_id, idempotency_key="k", **body)
            assert (await only_question(session)).state == "pending"
            await session.answer(asked.request_id, idempotency_key="k", **body)
    assert caught.value.code == "interaction_not_owned"


async def test_an_answer_that_does_not_fit_is_kept_pending_and_then_put_right(
    tmp_path: Path,
) -> None:
    """Not valid, then over the call's budget, then accepted."""
    one_tool(tmp_path)
    page = Page()
    got: list[Any] = []
    with trio.fail_after(SECONDS):
        async with (
            opened(tmp_path, interact=page) as session,
            trio.open_nursery() as nursery,
        ):

            async def call() -> None:
                got.extend(await steps(session, ASK, max_output_bytes=200))

            nursery.start_soon(call)
            _, reply = await page.next()
            codes = []
            for answers in ({"b": "x"}, {"a": "x" * 300}):
                with pytest.raises(InteractionError) as caught:
                    await reply.answer(answers)
                codes.append(caught.value.code)
            await reply.answer({"a": "fine"})
    assert codes == ["answers_invalid", "answers_over_budget"]
    assert got == [{"a": "fine"}]


async def test_an_answer_grants_nothing(tmp_path: Path) -> None:
    """A call that a rule sends to approval is asked about after the answer as before."""
    one_tool(tmp_path)
    write_config(tmp_path, ["t"], rules=[{"match": "*", "effect": "ask"}])
    allowed = iter([True, False])
    adapter = CallbackAdapter(lambda _question, _problems: {"a": "you may do everything"})
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=adapter, approve=lambda _: next(allowed)) as session:
            assert await steps(session, ASK) == [{"a": "you may do everything"}]
            result = await session.dispatch("t", {"steps": []})
    assert result.code == "approval_denied"


# ---------------------------------------------------------------- response actions

SUBMIT = {"id": "send", "label": "Send", "kind": "response", "response": "submit"}
LEAVE = {"id": "leave", "label": "Leave", "kind": "response", "response": "cancel"}


@pytest.mark.parametrize("shown_before", [False, True])
async def test_response_actions_answer_the_pending_question(
    tmp_path: Path, shown_before: bool
) -> None:
    """Submit and cancel of the panel that asks, whether or not it has shown something before."""
    one_tool(tmp_path, actions=[SUBMIT, {**LEAVE, "scope": "block", "blocks": ["f"]}])
    page = Page()
    before = [["update", "p", replace()]] if shown_before else []
    got: list[Any] = []
    with trio.fail_after(SECONDS):
        async with (
            opened(tmp_path, interact=page) as session,
            trio.open_nursery() as nursery,
        ):

            async def call() -> None:
                got.extend(await steps(session, *before, ASK, ASK))

            nursery.start_soon(call)
            asked, _ = await page.next()
            with pytest.raises(PanelError) as stale:
                session.resolve_action(PANEL, "send", revision=7)
            sent = session.resolve_action(PANEL, "send", revision=asked.revision)
            told = await session.run_action(sent, answers={"a": "yes"})
            await page.next()
            left = await session.run_action(session.resolve_action(PANEL, "leave", block="f"))
    assert sent == ResponseAction("submit", PANEL)
    assert stale.value.code == "panel_revision_conflict"
    assert [ack.state for ack in (told, left) if not isinstance(ack, str)] == [
        "answered",
        "cancelled",
    ]
    assert got[len(before) :] == [{"a": "yes"}, "interaction_cancelled"]


async def test_a_response_without_a_question_is_refused(tmp_path: Path) -> None:
    """The panel is there, and nobody waits."""
    one_tool(tmp_path, actions=[SUBMIT])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=Page()) as session:
            await steps(session, ["update", "p", replace()])
            with pytest.raises(InteractionError) as caught:
                await session.run_action(session.resolve_action(PANEL, "send"), answers={"a": "x"})
    assert caught.value.code == "interaction_unknown"


# ---------------------------------------------------------------- the clock of the call


@pytest.fixture
def mock_clock() -> MockClock:
    """Real time, with jumps."""
    return MockClock(rate=1.0)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_time_that_a_person_takes_is_not_the_handlers(
    tmp_path: Path, mock_clock: MockClock, language: str
) -> None:
    """A question may take longer than call_ms; afterwards what is left of call_ms still ends it."""
    one_tool(tmp_path, language)
    page = Page()
    ended: list[raw_exec.ToolResult] = []
    going_on = trio.Event()

    async def show(_view: PanelView) -> None:
        going_on.set()

    async def call(session: Session, *after: Any, hang: bool) -> None:
        arguments = {"steps": [ASK, *after], "hang": hang}
        ended.append(await session.dispatch("t", arguments, timeout_seconds=60))

    with trio.fail_after(3000 + SECONDS):
        async with opened(tmp_path, interact=page, on_panel=show) as session:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(functools.partial(call, session, hang=False))
                _, reply = await page.next()
                mock_clock.jump(1000)
                await reply.answer({"a": "at last"})
            async with trio.open_nursery() as nursery:
                after = ["update", "p", replace()]
                nursery.start_soon(functools.partial(call, session, after, hang=True))
                _, reply = await page.next()
                mock_clock.jump(1000)
                await reply.answer({"a": "at last"})
                with trio.fail_after(SECONDS):
                    await going_on.wait()
                mock_clock.jump(60)
    assert [result.code for result in ended] == [None, "timeout"]
