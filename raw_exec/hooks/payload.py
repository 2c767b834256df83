"""What a hook is told: one JSON object. Pure.

Contract: "Hook payloads" of the tool contract. ``tool.arguments`` are the original ones,
``tool.effects`` is there when the tool declares effects, ``tool.result`` after the handler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .receipt import HookFailure

__all__ = ["PROTOCOL_VERSION", "HookIds", "encode_payload", "event_payload", "tool_payload"]

PROTOCOL_VERSION: Final = 2


@dataclass(frozen=True, slots=True)
class HookIds:
    """Where an event belongs, as far as known.

    Args:
        session_id: The session.
        turn_id: The turn in it.
    """

    session_id: str | None = None
    turn_id: str | None = None


def event_payload(
    event: str,
    *,
    cwd: str,
    agent: str,
    ids: HookIds,
    tool: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the payload of an event.

    Args:
        event: Its name.
        cwd: Absolute working directory.
        agent: Name of the agent.
        ids: Session and turn.
        tool: Of tool events, see ``tool_payload``.
        facts: Of other events, for example the prompt; they can't replace a field above.
    """
    out: dict[str, Any] = {"protocol_version": PROTOCOL_VERSION, "event": event, "cwd": cwd}
    out["agent_id"] = agent
    if ids.session_id is not None:
        out["session_id"] = ids.session_id
    if ids.turn_id is not None:
        out["turn_id"] = ids.turn_id
    if tool is not None:
        out["tool"] = dict(tool)
    return {**(facts or {}), **out}


def tool_payload(
    *,
    identity: str,
    name: str,
    arguments: Any,
    effects: Any,
    source: str,
    result: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the ``tool`` member of a tool event."""
    out: dict[str, Any] = {"identity": identity, "name": name, "arguments": arguments}
    if effects is not None:
        out["effects"] = effects
    out["source"] = source
    if result is not None:
        out["result"] = dict(result)
    return out


def encode_payload(payload: Mapping[str, Any]) -> bytes:
    """Return the bytes that a hook reads: the object and a newline.

    Raises:
        HookFailure: ``request_invalid``: something in it is no UTF-8.
    """
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        text = "can't be told of an event that is not UTF-8"
        raise HookFailure("request_invalid", text) from None
