"""Check ``agents.<name>``: selected tools, rules, hooks and variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..errors import PolicyError
from ..fields import Cursor, did_you_mean, shown
from ..limits import MAX_OUTPUT_BYTES, MAX_TOOLS
from ..manifest.tool import TOOL_ID, TOOL_NAME
from ..policy import RuleSet, parse_rules
from ..values import freeze
from .model import AgentConfig, ToolUse

__all__ = ["AGENT_NAME", "check_agents", "default_agents"]

AGENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
DEFAULT_AGENT: Final = "default"
"""Name of the agent that exists when the configuration has none; it has no tools."""

_TOOL_REF = re.compile(rf"(?:builtin|local|agent)/{TOOL_ID.pattern}")
_MCP_REF = re.compile(r"mcp/[A-Za-z0-9][A-Za-z0-9_-]{0,63}/[!-~]{1,128}")
_HOOK_REF = re.compile(rf"(?:local|agent)/{TOOL_ID.pattern}")
_MAX_AGENTS = 1000
_MAX_RULES = 10_000
_MAX_HOOKS = 256
_MAX_VARS = 1024
_MAX_REQUEST_MS = 24 * 60 * 60 * 1000
_FIELDS = ("tools", "hooks", "vars", "max_output_bytes", "request_timeout_ms", "model")
_REF_FORMS = (
    "builtin/<id>, local/<id> or agent/<id>, with <id> like [a-z][a-z0-9_-]*, "
    "or mcp/<server>/<tool>"
)


def default_agents() -> dict[str, AgentConfig]:
    """Return the agents of a configuration that has none."""
    return {DEFAULT_AGENT: AgentConfig(DEFAULT_AGENT, parse_rules([]))}


def check_agents(cursor: Cursor, known_vars: Mapping[str, object]) -> dict[str, AgentConfig]:
    """Check the ``agents`` object.

    Args:
        known_vars: The names that ``vars`` of an agent may list.
    """
    out: dict[str, AgentConfig] = {}
    for name, item in cursor.members(AGENT_NAME, "agent name"):
        if len(out) >= _MAX_AGENTS:
            cursor.fail(f"has over {_MAX_AGENTS} agents")
            break
        out[name] = _check_agent(name, item, known_vars)
    return out


def _check_agent(name: str, cursor: Cursor, known_vars: Mapping[str, object]) -> AgentConfig:
    fields = cursor.fields(_FIELDS) or {}
    tools = fields["tools"].fields(("use", "rules")) if "tools" in fields else None
    tools = tools or {}
    use = _check_use(tools["use"]) if "use" in tools else ()
    rules, raw_rules = _check_rules(tools.get("rules"))
    hooks: tuple[str, ...] = ()
    if "hooks" in fields:
        hook_fields = fields["hooks"].fields(("use",)) or {}
        if "use" in hook_fields:
            hooks = _check_hooks(hook_fields["use"])
    max_output = timeout = model = None
    if "max_output_bytes" in fields:
        max_output = fields["max_output_bytes"].integer(1, MAX_OUTPUT_BYTES)
    if "request_timeout_ms" in fields:
        timeout = fields["request_timeout_ms"].integer(1, _MAX_REQUEST_MS)
    if "model" in fields:
        model = fields["model"].string(min_chars=1, max_chars=256, one_line=True)
    return AgentConfig(
        name=name,
        rules=rules,
        raw_rules=raw_rules,
        tools_use=use,
        hooks_use=hooks,
        vars=_check_vars(fields["vars"], known_vars) if "vars" in fields else (),
        max_output_bytes=8192 if max_output is None else max_output,
        request_timeout_ms=timeout,
        model=model,
    )


def _check_use(cursor: Cursor) -> tuple[ToolUse, ...]:
    out: list[ToolUse] = []
    seen: dict[str, str] = {}
    for item in cursor.items(max_items=MAX_TOOLS):
        use = _check_use_item(item)
        if use is None:
            continue
        if use.ref in seen:
            item.fail(f"{use.ref!r} is selected twice; first at {seen[use.ref]}")
        seen.setdefault(use.ref, item.pointer)
        out.append(use)
    return tuple(out)


def _check_use_item(cursor: Cursor) -> ToolUse | None:
    place = cursor
    as_name = None
    if isinstance(cursor.value, dict):
        fields = cursor.fields(("ref", "as"), ("ref",)) or {}
        if "as" in fields:
            as_name = fields["as"].name(TOOL_NAME, "name")
        if "ref" not in fields:
            return None
        place = fields["ref"]
    elif not isinstance(cursor.value, str):
        cursor.wrong_type('a tool ID, or an object like {"ref": ID, "as": NAME}')
        return None
    ref = place.string()
    if ref is None:
        return None
    if _TOOL_REF.fullmatch(ref) is None and _MCP_REF.fullmatch(ref) is None:
        hint = "; wildcards are not allowed here" if "*" in ref or "?" in ref else ""
        place.fail(f"tool ID {shown(ref)} must be {_REF_FORMS}{hint}")
        return None
    return ToolUse(ref, as_name, place.pointer)


def _check_rules(cursor: Cursor | None) -> tuple[RuleSet, tuple[Mapping[str, Any], ...]]:
    empty = parse_rules([])
    if cursor is None:
        return empty, ()
    items = list(cursor.items(max_items=_MAX_RULES))
    good = True
    for item in items:
        # One at a time, so that every wrong rule is reported and not only the first.
        try:
            parse_rules([item.value])
        except PolicyError as exc:
            item.fail(exc.message + (f"; {exc.hint}" if exc.hint else ""))
            good = False
    if not good:
        return empty, ()
    values = [item.value for item in items]
    try:
        return parse_rules(values), tuple(freeze(value) for value in values)
    except PolicyError as exc:
        place = cursor if exc.rule is None else cursor.child(exc.rule)
        place.fail(exc.message)
        return empty, ()


def _check_hooks(cursor: Cursor) -> tuple[str, ...]:
    out: list[str] = []
    for item in cursor.items(max_items=_MAX_HOOKS):
        ref = item.name(_HOOK_REF, "hook ID")
        if ref is not None and ref in out:
            item.fail(f"{ref!r} is selected twice")
        elif ref is not None:
            out.append(ref)
    return tuple(out)


def _check_vars(cursor: Cursor, known: Mapping[str, object]) -> tuple[str, ...]:
    out: list[str] = []
    for item in cursor.items(max_items=_MAX_VARS):
        name = item.string()
        if name is None:
            continue
        if name not in known:
            item.fail(f"unknown variable {shown(name)}{did_you_mean(name, known)}")
        elif name in out:
            item.fail(f"variable {name!r} is selected twice")
        else:
            out.append(name)
    return tuple(out)
