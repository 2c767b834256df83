"""Documents, adapters and clocks for questions."""

from __future__ import annotations

from typing import Any

import trio

from raw_exec.interactions import InteractionService, Question, Reply

FORM: dict[str, Any] = {
    "id": "ask",
    "kind": "form",
    "fields": [
        {"id": "name", "label": "Your name", "kind": "text"},
        {
            "id": "days",
            "label": "Days",
            "kind": "multi_select",
            "required": False,
            "options": [{"id": "mon", "label": "Mon"}, {"id": "tue", "label": "Tue"}],
        },
    ],
}
DOCUMENT: dict[str, Any] = {"title": "Who is there", "blocks": [FORM]}
SMALLEST = {"name": "x"}


def clock() -> int:
    """Return epoch milliseconds that follow trio's clock."""
    return 1_000_000 + int(trio.current_time() * 1000)


class Page:
    """An adapter that shows questions and leaves the answering to the test."""

    def __init__(self) -> None:
        self.here = True
        self.shown, self._questions = trio.open_memory_channel[tuple[Question, Reply]](100)
        self.taken_back: list[str] = []
        self.returns = False

    def can_ask(self, session: str) -> bool:
        """Whether the test says so."""
        return self.here

    async def ask(self, question: Question, reply: Reply) -> None:
        """Show it until it is settled, or only for a moment."""
        self.shown.send_nowait((question, reply))
        if self.returns:
            return
        try:
            await trio.sleep_forever()
        finally:
            self.taken_back.append(question.request_id)

    async def next(self) -> tuple[Question, Reply]:
        """Return the next question that is shown."""
        with trio.fail_after(30):
            return await self._questions.receive()


async def ask(service: InteractionService, **changes: Any) -> dict[str, Any]:
    """Ask the usual question."""
    fields: dict[str, Any] = {
        "owner": "local/a",
        "session": "s1",
        "tool_call_id": "c1",
        "panel": "local/a#p",
        "document": DOCUMENT,
        "budget_bytes": 8192,
    }
    return await service.request(**(fields | changes))
