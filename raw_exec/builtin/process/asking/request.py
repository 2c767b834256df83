"""What ``process`` is asked for."""

from __future__ import annotations

from typing import Any

__all__ = ["ACTIONS", "MAX_PAGE_BYTES", "find_problem", "parse_request"]

MAX_PAGE_BYTES = 64 * 1024

ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "start": (("command",), ("cwd", "label", "env_refs", "timeout_ms")),
    "list": ((), ()),
    "status": (("id",), ()),
    "output": (("id",), ("cursor", "max_bytes")),
    "stop": (("id",), ()),
}
"""Action to the fields it needs and the fields it may have."""

_EXAMPLES = {
    "start": '{"action":"start","command":"make watch"}',
    "list": '{"action":"list"}',
    "status": '{"action":"status","id":"job_0123456789abcdef"}',
    "output": '{"action":"output","id":"job_0123456789abcdef","cursor":0}',
    "stop": '{"action":"stop","id":"job_0123456789abcdef"}',
}


def parse_request(args: Any) -> tuple[str, dict[str, Any]]:
    """Return the action and its fields, every one present. Pure.

    Raises:
        ValueError: A field is missing, or belongs to another action.
    """
    action: str = args["action"]
    needed, possible = ACTIONS[action]
    for name in needed:
        if name not in args:
            raise ValueError(f"{action} needs {name}")
    for name in args:
        if name != "action" and name not in (*needed, *possible):
            raise ValueError(f"{action} takes no {name}")
    fields = {name: args.get(name) for name in (*needed, *possible)}
    for name in ("command", "cwd"):
        value = fields.get(name)
        if value is not None:
            _check_text(name, value)
    return action, fields


def find_problem(args: Any) -> str | None:
    """Return what is wrong with the arguments beyond their schema, with a call that works."""
    try:
        parse_request(args)
    except ValueError as exc:
        return f"{exc}; for example {_EXAMPLES[args['action']]}"
    return None


def _check_text(name: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"{name} must not be empty or blank")
    if "\0" in value:
        raise ValueError(f"{name} can't hold a NUL character")
