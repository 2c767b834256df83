"""What a handler may ask a person: ``interactions.request``.

Security: whose question it is and in which panel it stands is decided by the call that the
request came from.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import RawExecError
from ..history import HistoryError
from ..panels import PanelBoard, PanelError
from ..pool import CallTimer, RequestRefused
from .errors import FAILURES, InteractionError
from .service import InteractionService

__all__ = ["METHOD", "answer_question_request"]

METHOD: Final = "interactions.request"
_REQUIRED: Final = {"panel", "document"}


async def answer_question_request(
    service: InteractionService | None,
    board: PanelBoard | None,
    params: Any,
    *,
    owner: str,
    session: str | None,
    tool_call_id: str,
    budget_bytes: int,
    timer: CallTimer,
) -> dict[str, Any]:
    """Ask for a running handler; its wall time stands still until the answer.

    Args:
        service: ``None`` where no session is open.
        board: The session's panels, which say what panels the tool has.
        params: ``{panel, document, timeout_ms?}`` as the handler gave it.
        owner: Policy identity of the tool.

    Raises:
        RequestRefused: There is no answer, and why.
    """
    fields = set(params) if isinstance(params, dict) else set()
    if not fields >= _REQUIRED or fields - _REQUIRED - {"timeout_ms"}:
        raise RequestRefused("panel_invalid", "a question has panel, document and timeout_ms?")
    if service is None or board is None or session is None:
        code = "interaction_unavailable"
        raise RequestRefused(code, f"{FAILURES[code]}; no session is open")
    try:
        _, panel = board.resolve(owner, tool_call_id, params["panel"])
        with timer.paused():
            return await service.request(
                owner=owner,
                session=session,
                tool_call_id=tool_call_id,
                panel=panel,
                document=params["document"],
                timeout_ms=params.get("timeout_ms"),
                budget_bytes=budget_bytes,
            )
    except (PanelError, InteractionError, HistoryError) as exc:
        raise RequestRefused(exc.code, _told(exc)) from None


def _told(exc: RawExecError) -> str:
    return f"{exc.message}; {exc.hint}" if exc.hint else exc.message
