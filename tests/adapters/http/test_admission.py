"""Places and turns, without a network."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from raw_exec.adapters.http.admission import Admission
from raw_exec.adapters.http.answers import Refused


async def test_places_are_bounded_for_all_and_for_each() -> None:
    """Global and per-principal limits of running and queued calls."""
    admission = Admission(1, 3, per_principal=2)
    tickets = [admission.enter("a"), admission.enter("a")]
    with pytest.raises(Refused, match="this key has 2 calls"):
        admission.enter("a")
    tickets += [admission.enter("b"), admission.enter("c")]
    with pytest.raises(Refused, match="the service has 4 calls") as caught:
        admission.enter("d")
    assert caught.value.headers == {"Retry-After": "1"}
    for ticket in tickets:
        ticket.leave()
        ticket.leave()
    assert (admission.held, admission.running) == (0, 0)
    tickets = [admission.enter("a"), admission.enter("a")]
    with pytest.raises(Refused, match="this key has 2 calls"):
        admission.enter("a")


async def test_turns_go_round_the_principals() -> None:
    """Our choice: who sends many calls delays its own."""
    admission = Admission(1, 100)
    order: list[str] = []
    all_wait = trio.Event()

    async def call(name: str) -> None:
        with admission.enter(name[0]) as ticket:
            await ticket.wait_turn()
            order.append(name)
            await all_wait.wait()

    async with trio.open_nursery() as nursery:
        for name in ("a1", "a2", "a3", "b1", "a4", "c1"):
            nursery.start_soon(call, name)
            await trio.testing.wait_all_tasks_blocked()
        all_wait.set()
    assert order == ["a1", "a2", "b1", "c1", "a3", "a4"]
    assert (admission.held, admission.running) == (0, 0)


async def test_no_place_is_lost_when_waiting_ones_give_up() -> None:
    """Rule 3, with a cancellation at every point of a turn's hand-over."""
    for steps in range(12):
        admission = Admission(1, 10)
        scope = trio.CancelScope()

        async def holder(admission: Admission = admission) -> None:
            with admission.enter("a") as ticket:
                await ticket.wait_turn()
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()

        async def quitter(
            admission: Admission = admission, scope: trio.CancelScope = scope
        ) -> None:
            with admission.enter("b") as ticket, scope:
                await ticket.wait_turn()
                await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder)
            nursery.start_soon(quitter)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()
        assert (admission.held, admission.running) == (0, 0)
        with admission.enter("c") as ticket:
            with trio.fail_after(1):
                await ticket.wait_turn()
            assert admission.running == 1


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_turn_given_to_a_call_that_is_cancelled_at_once_is_passed_on(
    cancelled_first: bool,
) -> None:
    """Both happen before the call runs again, in either order."""
    admission = Admission(1, 10)
    scope = trio.CancelScope()

    async def quitter() -> None:
        with admission.enter("b") as ticket, scope:
            await ticket.wait_turn()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        holder = admission.enter("a")
        await holder.wait_turn()
        nursery.start_soon(quitter)
        await trio.testing.wait_all_tasks_blocked()
        steps = [scope.cancel, holder.leave]
        for step in steps if cancelled_first else reversed(steps):
            step()
    assert (admission.held, admission.running) == (0, 0)
    with admission.enter("c") as ticket, trio.fail_after(1):
        await ticket.wait_turn()
