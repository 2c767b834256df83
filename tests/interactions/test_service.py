"""Asking and answering, with a history in memory and a clock that the tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from raw_exec.history import History, HistoryError, open_history
from raw_exec.interactions import (
    DEFAULT_TIMEOUT_MS,
    MAX_PENDING,
    MAX_TIMEOUT_MS,
    Acknowledgement,
    InteractionError,
    InteractionService,
    Question,
    Reply,
    answer_bytes,
)
from tests.history.hosts import host
from tests.interactions.support import DOCUMENT, FORM, SMALLEST, Page, ask, clock


@pytest.fixture
async def history() -> AsyncIterator[History]:
    """Yield a history with two sessions."""
    async with open_history(clock=clock) as opened:
        await opened.begin_session("s1")
        await opened.begin_session("s2")
        yield opened


@pytest.fixture
def page() -> Page:
    """Return an adapter that the test answers for."""
    return Page()


@pytest.fixture
def service(history: History, page: Page) -> InteractionService:
    """Return the service under test."""
    return InteractionService(history, page, clock)


class Asked:
    """A request that runs in the background, and how it ended."""

    def __init__(self, nursery: trio.Nursery, service: InteractionService, **changes: Any) -> None:
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.answer: dict[str, Any] | None = None
        self.code: str | None = None
        self._arguments = changes
        nursery.start_soon(self._run, service)

    async def _run(self, service: InteractionService) -> None:
        try:
            with self.scope:
                self.answer = await ask(service, **self._arguments)
        except InteractionError as exc:
            self.code = exc.code
        finally:
            self.done.set()

    async def outcome(self) -> dict[str, Any] | str | None:
        """Wait, and return the answer or the code; ``None`` when it was cancelled."""
        with trio.fail_after(30):
            await self.done.wait()
        return self.answer or self.code


async def submit(
    service: InteractionService, question: Question, **changes: Any
) -> Acknowledgement:
    fields: dict[str, Any] = {
        "expected_revision": question.revision,
        "idempotency_key": "k1",
        "answers": {"name": "Ada"},
        "session": question.session,
    }
    return await service.submit(question.request_id, **(fields | changes))


async def code_of(service: InteractionService, question: Question, **changes: Any) -> str:
    with pytest.raises(InteractionError) as caught:
        await submit(service, question, **changes)
    return caught.value.code


async def test_an_answer_reaches_the_tool_and_the_history(
    service: InteractionService,
    history: History,
    page: Page,
    nursery: trio.Nursery,
    mock_clock: MockClock,
) -> None:
    """The whole way, once."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    assert service.pending() == service.pending("s1") == (question,)
    assert service.pending("s2") == ()
    told = await submit(service, question, answers={"days": ["tue", "mon"], "name": "Ada"})
    assert told == Acknowledgement(question.request_id, "answered", 2, clock())
    answers = {"name": "Ada", "days": ["mon", "tue"]}
    assert await asked.outcome() == {
        "status": "answered",
        "answers": answers,
        "requestId": question.request_id,
    }
    record = await history.interaction(question.request_id)
    assert record is not None
    assert (record.state, record.revision, record.answers) == ("answered", 2, answers)
    assert page.taken_back == [question.request_id]
    assert service.pending() == ()


async def test_a_question_is_stored_before_it_is_shown(history: History) -> None:
    """Contract: a host that dies right after showing knows what it asked."""
    seen = []

    class Looks(Page):
        async def ask(self, question: Question, reply: Reply) -> None:
            record = await history.interaction(question.request_id)
            assert record is not None
            seen.append((record.state, record.revision, record.document))
            await reply.cancel()

    with pytest.raises(InteractionError, match="declined"):
        await ask(InteractionService(history, Looks(), clock))
    assert [item[:2] for item in seen] == [("pending", 1)]
    assert seen[0][2]["title"] == DOCUMENT["title"]


@pytest.mark.parametrize("why", ["no adapter", "nobody there", "closed"])
async def test_where_nobody_can_be_asked_the_tool_is_told_at_once(
    history: History, page: Page, why: str
) -> None:
    """Contract: interaction_unavailable immediately, and nothing is stored."""
    service = InteractionService(history, None if why == "no adapter" else page, clock)
    if why == "nobody there":
        page.here = False
    if why == "closed":
        await service.close()
    with pytest.raises(InteractionError) as caught:
        await ask(service)
    assert caught.value.code == "interaction_unavailable"
    assert await history.interactions("s1") == ()


@pytest.mark.parametrize(
    "document",
    [
        {"blocks": []},
        {"blocks": [FORM, FORM | {"id": "other"}]},
        {"blocks": [FORM], "colour": "red"},
        {"blocks": [FORM | {"fields": []}]},
        [],
        None,
    ],
)
async def test_a_document_that_is_no_question_is_refused(
    service: InteractionService, history: History, document: Any
) -> None:
    """Contract: exactly one form block in a valid document."""
    with pytest.raises(InteractionError) as caught:
        await ask(service, document=document)
    assert caught.value.code == "panel_invalid"
    assert await history.interactions("s1") == ()


async def test_a_document_over_64_kib_is_refused(service: InteractionService) -> None:
    """The limit of every panel document."""
    texts = [{"id": f"m{n}", "kind": "markdown", "text": "x" * 16_000} for n in range(5)]
    with pytest.raises(InteractionError) as caught:
        await ask(service, document={"blocks": [*texts, FORM]})
    assert caught.value.code == "panel_too_large"


async def test_a_budget_that_no_answer_fits_is_refused_before_showing(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """Contract: nobody is asked for an answer that can't be delivered."""
    smallest = answer_bytes(SMALLEST)
    with pytest.raises(InteractionError) as caught:
        await ask(service, budget_bytes=smallest - 1)
    assert caught.value.code == "interaction_budget_too_small"
    assert await history.interactions("s1") == ()
    asked = Asked(nursery, service, budget_bytes=smallest)
    question, _ = await page.next()
    assert await code_of(service, question) == "answers_over_budget"
    assert service.pending() == (question,)
    await submit(service, question, answers={"name": "A"})
    assert isinstance(await asked.outcome(), dict)


async def test_invalid_answers_stay_pending_and_say_what_is_wrong(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Contract; the key of a refused submission is not used up."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    with pytest.raises(InteractionError) as caught:
        await submit(service, question, answers={"days": ["sun"]})
    assert caught.value.code == "answers_invalid"
    assert [problem.pointer for problem in caught.value.problems] == ["/name", "/days/0"]
    assert await code_of(service, question, answers={"name": "\ud800"}) == "answers_invalid"
    assert service.pending() == (question,)
    await submit(service, question)
    assert isinstance(await asked.outcome(), dict)


async def test_of_two_answers_at_the_same_instant_exactly_one_counts(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Contract: the tool gets the answer whose sender was told so."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    accepted: list[str] = []
    refused: list[str] = []
    barrier = trio.Event()

    async def one(name: str) -> None:
        await barrier.wait()
        try:
            await submit(service, question, idempotency_key=name, answers={"name": name})
            accepted.append(name)
        except InteractionError as exc:
            refused.append(exc.code)

    async with trio.open_nursery() as senders:
        for n in range(8):
            senders.start_soon(one, f"n{n}")
        await wait_all_tasks_blocked()
        barrier.set()
    assert refused == ["interaction_answered"] * 7
    outcome = await asked.outcome()
    assert isinstance(outcome, dict)
    assert [outcome["answers"]["name"]] == accepted


async def test_the_same_submission_twice_at_once_is_acknowledged_twice(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Contract: a client that sends again after a broken connection."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    told: list[Acknowledgement] = []

    async def one() -> None:
        told.append(await submit(service, question))

    async with trio.open_nursery() as senders:
        senders.start_soon(one)
        senders.start_soon(one)
    assert told[0] == told[1]
    assert isinstance(await asked.outcome(), dict)
    assert await submit(service, question) == told[0]
    assert (
        await code_of(service, question, answers={"name": "Eve"}) == "interaction_replay_conflict"
    )
    assert await code_of(service, question, idempotency_key="k2") == "interaction_answered"


async def test_an_answer_after_expiry_is_refused(
    service: InteractionService,
    history: History,
    page: Page,
    nursery: trio.Nursery,
    mock_clock: MockClock,
) -> None:
    """Contract: the default deadline is 30 minutes."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    assert question.expires_at - question.created_at == DEFAULT_TIMEOUT_MS == 1_800_000
    mock_clock.jump(1799)
    await wait_all_tasks_blocked(0.01)
    assert service.pending() == (question,)
    mock_clock.jump(1.001)
    assert await asked.outcome() == "interaction_expired"
    assert await code_of(service, question) == "interaction_expired"
    record = await history.interaction(question.request_id)
    assert record is not None
    assert record.state == "expired"


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1, "5", True, 1.5])
async def test_a_deadline_that_is_not_allowed_is_refused(
    service: InteractionService, timeout_ms: Any
) -> None:
    """Contract: up to 24 hours."""
    with pytest.raises(InteractionError) as caught:
        await ask(service, timeout_ms=timeout_ms)
    assert caught.value.code == "interaction_invalid"


async def test_a_deadline_of_24_hours_is_possible(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """The pair of the test above."""
    asked = Asked(nursery, service, timeout_ms=MAX_TIMEOUT_MS)
    question, _ = await page.next()
    assert question.expires_at - question.created_at == 86_400_000
    await submit(service, question)
    await asked.outcome()


async def test_another_session_can_not_answer(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Security; the pair: its own session still can."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    assert await code_of(service, question, session="s2") == "interaction_not_owned"
    assert (
        await code_of(service, question, session="s2", answers=None, cancel=True)
        == "interaction_not_owned"
    )
    assert service.pending() == (question,)
    await submit(service, question)
    assert isinstance(await asked.outcome(), dict)


@pytest.mark.parametrize(
    "changes",
    [
        {"expected_revision": "1"},
        {"expected_revision": True},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 129},
        {"idempotency_key": None},
        {"answers": None},
        {"cancel": True},
    ],
)
async def test_a_malformed_submission_is_refused(
    service: InteractionService, page: Page, nursery: trio.Nursery, changes: dict[str, Any]
) -> None:
    """It comes from a client, which may send anything."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    assert await code_of(service, question, **changes) == "interaction_invalid"
    assert await code_of(service, question, expected_revision=2) == "interaction_revision_conflict"
    assert service.pending() == (question,)
    await submit(service, question)
    await asked.outcome()


async def test_an_unknown_question_is_refused(service: InteractionService, page: Page) -> None:
    """A guessed ID, or one that was deleted."""
    with pytest.raises(InteractionError) as caught:
        await service.submit(
            "ask_0", expected_revision=1, idempotency_key="k", session="s1", cancel=True
        )
    assert caught.value.code == "interaction_unknown"


async def test_a_person_can_decline(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Contract: cancelled is a failed terminal result."""
    asked = Asked(nursery, service)
    question, reply = await page.next()
    assert (await reply.cancel()).state == "cancelled"
    assert await asked.outcome() == "interaction_cancelled"
    assert await code_of(service, question) == "interaction_cancelled"


async def test_cancelling_the_call_cancels_the_question(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """Contract; it is stored although everything around it is being cancelled."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    asked.scope.cancel()
    assert await asked.outcome() is None
    assert asked.scope.cancelled_caught
    record = await history.interaction(question.request_id)
    assert record is not None
    assert (record.state, record.reason) == ("cancelled", "the call was given up")
    assert page.taken_back == [question.request_id]
    assert service.pending() == ()
    assert await code_of(service, question) == "interaction_cancelled"


async def test_a_call_that_is_cancelled_before_asking_stores_no_pending_question(
    service: InteractionService, history: History
) -> None:
    """Cancelled at the very first checkpoint."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await ask(service)
    assert scope.cancelled_caught
    assert await history.interactions("s1", "pending") == ()


async def test_a_submission_that_began_outlives_the_cancellation_of_its_sender(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """A page that is closed right after "send": the tool still gets the answer."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    async with trio.open_nursery() as sender, history._lock:
        sender.start_soon(submit, service, question)
        await wait_all_tasks_blocked()
        sender.cancel_scope.cancel()
    assert isinstance(await asked.outcome(), dict)


async def test_the_wait_outlives_a_page_that_goes_away(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """Contract: reconnecting leaves the wait in place, with the same question."""
    page.returns = True
    asked = Asked(nursery, service)
    question, _ = await page.next()
    await wait_all_tasks_blocked(0.01)
    assert not asked.done.is_set()
    (again,) = service.pending("s1")
    assert again == question
    await submit(service, again)
    assert isinstance(await asked.outcome(), dict)


async def test_an_adapter_that_fails_interrupts_its_question_only(
    history: History, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake in the host's page must not leave a tool waiting, nor end the host."""

    class Broken(Page):
        async def ask(self, question: Question, reply: Reply) -> None:
            raise RuntimeError("no page")

    service = InteractionService(history, Broken(), clock)
    assert await Asked(nursery, service).outcome() == "interaction_interrupted"
    assert "no page" in caplog.text


async def test_closing_the_host_interrupts_what_is_pending(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """The tools that wait are told."""
    asked = [Asked(nursery, service), Asked(nursery, service, session="s2")]
    await page.next()
    await page.next()
    await service.close()
    await service.close()
    assert [await item.outcome() for item in asked] == ["interaction_interrupted"] * 2
    assert [item.state for item in await history.interactions("s1")] == ["interrupted"]


async def test_a_session_has_a_bounded_number_of_pending_questions(
    service: InteractionService, page: Page, nursery: trio.Nursery
) -> None:
    """A tool that asks in a loop; another session can still ask."""
    asked = [Asked(nursery, service) for _ in range(MAX_PENDING)]
    for _ in asked:
        await page.next()
    with pytest.raises(InteractionError) as caught:
        await ask(service)
    assert caught.value.code == "interaction_limit"
    other = Asked(nursery, service, session="s2")
    await page.next()
    await service.close()
    assert await other.outcome() == "interaction_interrupted"


async def test_a_question_that_can_not_be_stored_is_not_shown(
    service: InteractionService, page: Page
) -> None:
    """The history's error reaches the caller as it is."""
    with pytest.raises(HistoryError) as caught:
        await ask(service, session="nobody")
    assert caught.value.code == "session_unknown"
    assert page.shown.statistics().current_buffer_used == 0
    assert service.pending() == ()


async def test_an_answer_that_can_not_be_stored_leaves_the_question_pending(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """A full disk: the sender is told, and may try again."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    db = history._store._db
    assert db is not None
    db.execute("PRAGMA query_only = ON")
    with pytest.raises(HistoryError):
        await submit(service, question)
    assert service.pending() == (question,)
    db.execute("PRAGMA query_only = OFF")
    await submit(service, question)
    assert isinstance(await asked.outcome(), dict)


async def test_a_question_of_a_deleted_session_is_interrupted(
    service: InteractionService, history: History, page: Page, nursery: trio.Nursery
) -> None:
    """Nobody can answer it any more."""
    asked = Asked(nursery, service)
    question, _ = await page.next()
    await history.delete_session("s1")
    assert await code_of(service, question) == "interaction_unknown"
    await service.close()
    assert await asked.outcome() == "interaction_interrupted"


# ---------------------------------------------------------------- several hosts

ASKING = """
class Page:
    def can_ask(self, session):
        return True
    async def ask(self, question, reply):
        say("shown")
        await trio.sleep_forever()

service = InteractionService(history, Page())
form = {"id": "f", "kind": "form", "fields": [{"id": "name", "label": "Name", "kind": "text"}]}
await history.begin_session("s1")
await history.begin_call("s1", "c1", identity="local/a", name="a", arguments={})
async def request():
    answer = await service.request(
        owner="local/a", session="s1", tool_call_id="c1", panel="local/a#p",
        document={"blocks": [form]}, budget_bytes=8192)
    # The tool has its answer, and the host dies before there is a result.
    say("answered")
    await trio.to_thread.run_sync(stop)
async with trio.open_nursery() as nursery:
    nursery.start_soon(request)
    await trio.to_thread.run_sync(stop)
    (question,) = service.pending()
    await service.submit(question.request_id, expected_revision=1, idempotency_key="k1",
        answers={"name": "Ada"}, session="s1")
"""


@pytest.mark.slow
async def test_a_host_killed_while_asking_leaves_an_interrupted_question(tmp_path: Path) -> None:
    """Contract; and an answer to it afterwards is refused as such."""
    path = tmp_path / "h.db"
    with host(path, ASKING) as first:
        first.wait_for("shown")
        async with open_history(path) as history:
            service = InteractionService(history, Page())
            (record,) = await history.interactions("s1")
            arguments: dict[str, Any] = {
                "expected_revision": 1,
                "idempotency_key": "k2",
                "session": "s1",
                "answers": {"name": "Eve"},
            }
            with pytest.raises(InteractionError) as caught:
                await service.submit(record.request_id, **arguments)
            assert caught.value.code == "interaction_elsewhere"
            first.kill()
            with pytest.raises(InteractionError) as caught:
                await service.submit(record.request_id, **arguments)
            assert caught.value.code == "interaction_interrupted"
            assert [item.state for item in await history.interactions("s1")] == ["interrupted"]


@pytest.mark.slow
async def test_a_host_killed_between_answer_and_result_loses_no_answer(tmp_path: Path) -> None:
    """Contract: the answer and its acknowledgement are there, and the call has no result."""
    path = tmp_path / "h.db"
    with host(path, ASKING) as first:
        first.wait_for("shown")
        first.go_on()
        first.wait_for("answered")
        first.kill()
    async with open_history(path) as history:
        (record,) = await history.interactions("s1")
        assert (record.state, record.answers) == ("answered", {"name": "Ada"})
        call = await history.call("s1", "c1")
        assert call is not None
        assert call.state == "interrupted"
        service = InteractionService(history, None)
        told = await service.submit(
            record.request_id,
            expected_revision=1,
            idempotency_key="k1",
            session="s1",
            answers={"name": "Ada"},
        )
        assert record.settled_at is not None
        assert told == Acknowledgement(record.request_id, "answered", 2, record.settled_at)
