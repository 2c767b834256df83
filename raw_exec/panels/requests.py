"""What a handler may ask about its panels: ``panels.update`` and ``panels.get``.

Security: a request is authorised by the call it came from, whose ``PanelCall`` the host made
for its tool; nothing in the request says whose panel it is.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from ..pool import RequestRefused
from ..values import thaw
from .calls import PanelCall
from .errors import PanelError

__all__ = ["METHOD_PREFIX", "answer_panel_request"]

METHOD_PREFIX: Final = "panels."
_FIRST_SECONDS: Final = 5.0
"""How long ``panels.get`` waits for another call that is to fill the panel first."""

_FIELDS: Final = {"panels.update": {"panel", "body"}, "panels.get": {"panel"}}


async def answer_panel_request(panels: PanelCall | None, method: str, params: Any) -> Any:
    """Answer one request of a running handler.

    Args:
        panels: What the call may do; ``None`` where no session keeps panels.

    Returns:
        The new revision, or ``{"revision", "document"}`` or ``None`` for ``panels.get``.

    Raises:
        RequestRefused: With a panel code, or ``unsupported``.
    """
    fields = _FIELDS.get(method)
    if fields is None:
        raise RequestRefused("unsupported", f"there is no method {method!r:.80}")
    if not isinstance(params, dict) or set(params) != fields:
        raise RequestRefused("panel_invalid", f"{method} takes {', '.join(sorted(fields))}")
    if panels is None:
        raise RequestRefused("panel_closed_context", "no session keeps panels for this call")
    try:
        if method == "panels.update":
            return panels.update(params["panel"], params["body"])
        with trio.move_on_after(_FIRST_SECONDS):
            while (filled := panels.first_filling(params["panel"])) is not None:
                await filled.wait()
        return thaw(panels.get(params["panel"]))
    except PanelError as exc:
        raise RequestRefused(exc.code, str(exc)) from None
