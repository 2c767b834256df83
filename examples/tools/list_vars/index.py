"""List the selected variables: what they are, never what they hold."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return one JSON block, ``{"vars": [{name, description, type, access}, ...]}``."""
    try:
        found = {"vars": context.vars.list()}
    except Exception as error:
        if not hasattr(error, "code"):
            raise
        text = {"type": "text", "text": f"variables can't be listed: {error}"}
        return {"isError": True, "code": "vars_unavailable", "content": [text]}
    return {"content": [{"type": "json", "value": found}]}
