"""A lab in a thread of its own, so that plain tests can share an open runtime."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from tests.attacks.corpus import CASES
from tests.attacks.fixtures import World
from tests.attacks.lab import TierMissing, open_lab
from tests.attacks.model import Case
from tests.attacks.runner import Verdict, run_case

__all__ = ["LabThread", "open_lab_thread"]

_ANSWER_SECONDS = 110.0
_END_SECONDS = 60.0
_Task = tuple[int, Case]


class LabThread:
    """Runs cases one after another; opens another lab after a case that broke one.

    Args:
        world: The fixture set.
        effects: Of every profile.
    """

    def __init__(self, world: World, tier: str, isolation: str, effects: str = "declared") -> None:
        self.missing: str | None = None
        self._world, self._tier, self._isolation = world, tier, isolation
        self._effects = effects
        self._now: _Task | None = None
        self._numbers = itertools.count()
        self._todo: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Verdict | BaseException]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="attack lab", daemon=True)
        self._thread.start()

    def run(self, case: Case) -> Verdict:
        """Run one case and return its verdict.

        Raises:
            queue.Empty: When there is none in time; it is skipped should it come later.
        """
        number = next(self._numbers)
        self._todo.put((number, case))
        deadline = time.monotonic() + _ANSWER_SECONDS
        answered = -1
        while answered != number:
            remaining = max(0.0, deadline - time.monotonic())
            answered, answer = self._done.get(timeout=remaining)
        if isinstance(answer, TierMissing):
            self.missing = str(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Let the lab close."""
        self._todo.put(None)
        self._thread.join(_END_SECONDS)

    def _work(self) -> None:
        self._now = self._todo.get()
        while self._now is not None:
            try:
                trio.run(self._serve)
            except BaseException as exc:  # passed on to the test that waits
                # Without a case it was the closing that failed, and nobody waits.
                if self._now is not None:
                    self._done.put((self._now[0], _single(exc)))
                    self._now = self._todo.get()

    async def _serve(self) -> None:
        async with open_lab(
            self._world, self._tier, self._isolation, CASES, effects=self._effects
        ) as lab:
            while self._now is not None and not lab.broken:
                number, case = self._now
                self._done.put((number, await run_case(lab, case)))
                self._now = await trio.to_thread.run_sync(self._todo.get)


def _single(exc: BaseException) -> BaseException:
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc


@contextmanager
def open_lab_thread(
    world: World, tier: str, isolation: str, effects: str = "declared"
) -> Iterator[LabThread]:
    """Open a lab; it is closed at the end."""
    thread = LabThread(world, tier, isolation, effects)
    try:
        yield thread
    finally:
        thread.close()
