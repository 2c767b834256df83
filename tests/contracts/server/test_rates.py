"""How often one caller may ask."""

from __future__ import annotations

import threading

import trio
import trio.testing

from raw_exec.contracts import service as registry

ME = "{ me { email } }"


async def test_each_key_has_a_rate_of_its_own(serve, store, people, key_of, ticks) -> None:
    """A per-key rate limit; 429 says when to come back."""
    asker = serve(store, burst=3, per_second=0.1)
    busy = asker.of(token=key_of("member@acme.test"))
    for _ in range(4):
        answer = await busy.ask(ME)
    # The first request counts for the address, because its key had yet to prove good.
    assert answer.rule == (429, "BAD_USER_INPUT", "rate_limited")
    assert answer.headers["retry-after"] == "10"
    assert "10 s" in answer.error["message"]
    assert (await asker.of(token=key_of("admin@acme.test")).ask(ME)).status == 200
    ticks.seconds += 10
    assert (await busy.ask(ME)).status == 200
    assert (await busy.ask(ME)).status == 429


async def test_guessing_keys_is_slowed_down_and_good_keys_of_that_address_go_on(
    serve, store, people, key_of
) -> None:
    """Security: invented keys all count for the address that sends them."""
    asker = serve(store, burst=4, per_second=0.01)
    good = asker.of(token=key_of("member@acme.test"))
    assert (await good.ask(ME)).status == 200
    seen = [(await asker.of(token=f"rxu_{i}").ask(ME)).status for i in range(5)]
    assert seen == [401, 401, 401, 429, 429]
    assert (await asker.of(token=None).ask(ME)).status == 429
    assert (await good.ask(ME)).status == 200


async def test_a_revoked_key_counts_for_its_address_again(serve, store, people) -> None:
    """Security: a key that was good once is no way round the rate."""
    made = people.ask(people.operator, registry.create_key, email="member@acme.test")
    asker = serve(store, burst=3, per_second=0.01).of(token=made.token)
    assert (await asker.ask(ME)).status == 200
    people.ask(people.operator, registry.revoke_key, made.key.id)
    assert [(await asker.ask(ME)).status for _ in range(4)] == [401, 401, 401, 429]


async def test_requests_run_side_by_side_and_too_many_waiting_ones_are_sent_away(
    serve, store, people, key_of
) -> None:
    """Our choice: a full server says so instead of growing a queue."""
    together = threading.Barrier(3)
    done = threading.Event()

    class Slow:
        def read(self, work):
            if not done.is_set():
                together.wait(10)
                done.wait(10)
            return store.read(work)

    asker = serve(Slow(), threads=2, waiting=1).of(token=key_of("member@acme.test"))
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await asker.ask(ME)).status)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
            await trio.to_thread.run_sync(together.wait, 10)  # both run at the same time
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            refused = await asker.ask(ME)
            done.set()
    assert refused.rule == (503, "BAD_USER_INPUT", "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert statuses == [200, 200, 200]
