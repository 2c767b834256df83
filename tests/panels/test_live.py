"""Live frames: at most one per panel and interval, the latest wins, the last is sent."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from panels.boards import call, make_board, replace, todo

from raw_exec.panels import PanelView, open_live
from raw_exec.panels.live import INTERVAL_S


def views(count: int, panel: str = "todo", call_id: str = "c1") -> list[PanelView]:
    """Return that many frames of one panel, one revision after another."""
    board, frames = make_board()
    panels = call(board, call_id)
    for number in range(count):
        panels.update(panel, replace(todo(title=str(number))))
    return frames


async def test_200_updates_in_an_interval_are_two_frames(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Contract: one frame per panel per 250 ms, the first at once, the latest wins."""
    sent: list[tuple[float, int]] = []

    async def send(view: PanelView) -> None:
        sent.append((trio.current_time() - began, view.revision))

    with trio.fail_after(5):
        async with open_live(send) as live:
            began = trio.current_time()
            frames = views(200)
            live.offer(frames[0])
            await trio.testing.wait_all_tasks_blocked()
            for frame in frames[1:]:
                live.offer(frame)
            await trio.sleep(10 * INTERVAL_S)
            live.offer(frames[-1])
            await trio.testing.wait_all_tasks_blocked()
    assert sent == [(0, 1), (INTERVAL_S, 200), (10 * INTERVAL_S, 200)]


async def test_panels_do_not_wait_for_each_other(autojump_clock: trio.testing.MockClock) -> None:
    """The interval is a panel's own."""
    sent: list[tuple[float, str]] = []

    async def send(view: PanelView) -> None:
        sent.append((trio.current_time() - began, f"{view.panel} {view.revision}"))

    with trio.fail_after(5):
        async with open_live(send) as live:
            began = trio.current_time()
            one, two = views(2), views(2, "inline")
            live.offer(one[0])
            await trio.sleep(0.1)
            live.offer(one[1])
            live.offer(two[0])
            await trio.sleep(1)
    assert sent == [(0, "todo 1"), (0.1, "inline 1"), (INTERVAL_S, "todo 2")]


async def test_what_waits_at_the_end_is_sent_without_delay(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Contract: the last frame is always sent. Later ones have nowhere to go."""
    sent: list[int] = []

    async def send(view: PanelView) -> None:
        sent.append(view.revision)

    with trio.fail_after(5):
        async with open_live(send) as live:
            began = trio.current_time()
            frames = views(3)
            live.offer(frames[0])
            await trio.testing.wait_all_tasks_blocked()
            live.offer(frames[1])
        assert trio.current_time() == began
        live.offer(frames[2])
        await trio.testing.wait_all_tasks_blocked()
    assert sent == [1, 2]


async def test_a_slow_receiver_gets_the_latest_frame_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nothing piles up behind a client that does not read."""
    sent: list[int] = []

    async def send(view: PanelView) -> None:
        sent.append(view.revision)
        await trio.sleep(60)

    with trio.fail_after(1000):
        async with open_live(send) as live:
            for frame in views(50):
                live.offer(frame)
                await trio.sleep(1)
            await trio.sleep(60)
    assert sent == [1, 50]


async def test_an_offer_during_a_send_is_not_forgotten(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The wake-up would be lost if it were awaited on the event of the round before."""
    sent: list[int] = []
    done = trio.Event()

    async def send(view: PanelView) -> None:
        sent.append(view.revision)
        if view.revision == 1:
            live.offer(frames[1])
        else:
            done.set()

    with trio.fail_after(5):
        async with open_live(send) as live:
            frames = views(2)
            live.offer(frames[0])
            await done.wait()
    assert sent == [1, 2]


async def test_what_send_raises_ends_the_block(autojump_clock: trio.testing.MockClock) -> None:
    """A broken receiver is the caller's to handle, and is not silent."""

    async def send(view: PanelView) -> None:
        raise ConnectionError("gone")

    async def use() -> None:
        async with open_live(send) as live:
            live.offer(views(1)[0])
            await trio.sleep_forever()

    with trio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        await use()
    assert [type(exc) for exc in caught.value.exceptions] == [ConnectionError]
