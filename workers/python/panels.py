"""``context.panels`` and ``context.interactions``: what a tool shows, and what it asks a person.

A question to the supervisor blocks or returns an awaitable as those of ``context.vars`` do.
"""

from __future__ import annotations

import builtins

from .conversion import Unserializable, plain_value
from .variables import RequestError, Waiter, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["InteractionError", "Interactions", "PanelError", "Panels"]

MAX_REQUEST_VALUE_BYTES = 1024 * 1024


class PanelError(RequestError):
    """An update was not accepted, or a panel can't be had; ``code`` says why."""


class InteractionError(RequestError):
    """A question got no answer; ``code`` says why."""


class Panels:
    """The panels that this tool declares. Read only.

    Args:
        ask: Sends ``(method, params, waiter)`` for the running call.
    """

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[str, dict[str, Any], Waiter], None]) -> None:
        self._ask = ask

    def update(self, panel: str, body: dict[str, Any]) -> Any:
        """Show a change now; it is kept with the call's result. Return the new revision.

        Args:
            panel: Its ID in ``tool.json``.
            body: ``{"op": "replace", "document": ...}``, ``{"op": "patch", "patches": ...}``
                or ``{"op": "close"}``.

        Raises:
            PanelError: It was not accepted; nothing has changed.
        """
        params = {"panel": check_text(panel, "panel"), "body": _plain(body, PanelError)}
        return _question(self._ask, "panels.update", params, PanelError)

    def get(self, panel: str) -> Any:
        """Return ``{"revision", "document"}`` as of the last update, or None before the first.

        Raises:
            PanelError: The tool has no such panel, or the call has ended.
        """
        params = {"panel": check_text(panel, "panel")}
        return _question(self._ask, "panels.get", params, PanelError)


class Interactions:
    """Asks the person at the other end. Read only.

    Args:
        ask: Sends ``(method, params, waiter)`` for the running call.
    """

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[str, dict[str, Any], Waiter], None]) -> None:
        self._ask = ask

    def request(self, question: dict[str, Any]) -> Any:
        """Ask with one form and return ``{"status": "answered", "answers": ...}``.

        Args:
            question: ``{"panel", "document", "timeout_ms"?}``; the document holds exactly one
                form block.

        Raises:
            InteractionError: Nobody can be asked, or the question was cancelled or expired.
        """
        params = _plain(question, InteractionError)
        return _question(self._ask, "interactions.request", params, InteractionError)


def _question(
    ask: Callable[[str, dict[str, Any], Waiter], None],
    method: str,
    params: dict[str, Any],
    error: type[RequestError],
) -> Any:
    waiter = Waiter(error)
    ask(method, params, waiter)
    return waiter.result()


def _plain(value: object, error: type[RequestError]) -> Any:
    try:
        return plain_value(value, MAX_REQUEST_VALUE_BYTES)
    except Unserializable as exc:
        code = "panel_too_large" if exc.kind == "too_large" else "panel_invalid"
        raise error(code, exc.message) from None
