"""Read one variable, if the agent selects it and its access is ``read``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return one JSON block, ``{name, value, observed_at, cached}``."""
    try:
        value = context.vars.read(args["name"])
    except Exception as error:
        if not hasattr(error, "code"):
            raise
        text = {"type": "text", "text": str(error)}
        return {"isError": True, "code": "vars_unavailable", "content": [text]}
    return {"content": [{"type": "json", "value": value}]}
