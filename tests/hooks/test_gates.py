"""Hooks as real processes: who runs, in which order, what stops, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.hooks import HookIds, HookReceipt
from tests.hooks.support import CONTINUE, DENY, ECHO, configure, facts, opened, write_hook
from toolbox import write_config, write_tool


def refusal_of(error: raw_exec.RawExecError | None) -> tuple[str, str, dict[str, Any]]:
    assert error is not None
    detail = {k: v for k, v in error.detail.items() if k != "receipt"}  # type: ignore[attr-defined]
    return error.code, error.message, detail


async def test_a_gate_that_says_deny_stops_the_call_with_its_reason(tmp_path: Path) -> None:
    """Contract: a hook can veto."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", DENY)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            error = await hooks.pre({"text": "a"})
    assert refusal_of(error) == (
        "hook_denied",
        "agent/t was denied by hook agent/guard: no",
        {"hook": "agent/guard", "event": "PreToolUse"},
    )
    assert [facts(receipt) for receipt in hooks.receipts] == [
        ("agent/guard", "PreToolUse", "denied", None, "no")
    ]


@pytest.mark.parametrize("source", ["", CONTINUE, "print()", "import sys; sys.stderr.write('log')"])
async def test_a_gate_that_has_nothing_against_it_lets_the_call_go_on(
    tmp_path: Path, source: str
) -> None:
    """Contract: empty output, or continue; the pair of the test above."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", source)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            assert await hooks.pre({"text": "a"}) is None
    assert [facts(receipt) for receipt in hooks.receipts] == [
        ("agent/guard", "PreToolUse", "continued", None, None)
    ]


async def test_hooks_run_in_order_and_the_first_denial_stops(tmp_path: Path) -> None:
    """Contract: ordered selection; later hooks do not run."""
    names = {"c": CONTINUE, "a": DENY, "b": CONTINUE}
    ids = [write_hook(tmp_path, name, source) for name, source in names.items()]
    with trio.fail_after(30):
        async with opened(configure(tmp_path, ids), tmp_path) as hooks:
            assert await hooks.pre() is not None
    assert [(r.hook, r.outcome) for r in hooks.receipts] == [
        ("agent/c", "continued"),
        ("agent/a", "denied"),
    ]
    assert len({receipt.id for receipt in hooks.receipts}) == 2


async def test_a_later_continue_does_not_undo_anything(tmp_path: Path) -> None:
    """Contract: a hook never loosens; there is no order that lets a denied call through."""
    ids = [write_hook(tmp_path, "yes", CONTINUE), write_hook(tmp_path, "no", DENY)]
    for order in (ids, ids[::-1]):
        with trio.fail_after(30):
            async with opened(configure(tmp_path, order), tmp_path) as hooks:
                assert await hooks.pre() is not None


async def test_a_hook_is_told_the_original_arguments_and_where_they_come_from(
    tmp_path: Path,
) -> None:
    """Contract: the payload, compared whole; no effects where the tool declares none."""
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO)])
    arguments = {"text": 'é "x"\n', "items": ["", "b"]}
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            assert await hooks.pre(arguments) is None
            call = hooks.call({}, session_id="s1", turn_id="t1")
            call.source = "user_action"
            await hooks.service.pre_tool(call)
    first, second = (json.loads(receipt.message or "") for receipt in hooks.receipts)
    tool = {"identity": "agent/t", "name": "t", "arguments": arguments, "source": "model"}
    assert first == {
        "protocol_version": 2,
        "event": "PreToolUse",
        "cwd": str(tmp_path),
        "agent_id": "a",
        "tool": tool,
    }
    assert (second["session_id"], second["turn_id"]) == ("s1", "t1")
    assert second["tool"] == {**tool, "arguments": {}, "source": "user_action"}
    assert [receipt.tool_call_id for receipt in hooks.receipts] == ["call_1", "call_1"]


async def test_effects_are_told_and_can_be_a_condition(tmp_path: Path) -> None:
    """Contract: conditions on effects use the effects schema."""
    effects = {"files": [{"path": "/x/protected.txt", "operation": "write"}]}
    schema = {
        "type": "object",
        "properties": {
            "files": {
                "type": "array",
                "items": {"type": "object", "properties": {"path": {"type": "string"}}},
            }
        },
    }
    when = {"source": "effects", "any": "files[*].path", "regex": "protected\\.txt$"}
    events = [{"name": "PreToolUse", "when": when}]
    tool = {"condition_sources": ["effects"], "effects_schema": schema}
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, events)], tool=tool)
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            await hooks.pre({}, effects={"files": [{"path": "/x/free.txt"}]})
            await hooks.pre({}, effects={"files": []})
            assert hooks.receipts == []
            await hooks.pre({}, effects=effects)
    assert json.loads(hooks.receipts[0].message or "")["tool"]["effects"] == effects


async def test_only_calls_that_match_are_told(tmp_path: Path) -> None:
    """Contract: glob over the identity, then the condition; several entries, one run."""
    when = {"source": "arguments", "any": "text", "regex": "^rm"}
    events = [
        {"name": "PreToolUse", "match": "local/*"},
        {"name": "PreToolUse", "match": "agent/?", "when": when},
        {"name": "PreToolUse", "match": "agent/?", "when": {**when, "any": "items[*]"}},
        {"name": "PostToolUse"},
    ]
    config = configure(tmp_path, [write_hook(tmp_path, "guard", DENY, events)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            for arguments in ({}, {"text": "ls"}, {"items": []}, {"items": ["a rm"]}):
                assert await hooks.pre(arguments) is None
            assert hooks.receipts == []
            for arguments in (
                {"text": "rm x"},
                {"items": ["a", "rm"]},
                {"text": "rm", "items": ["rm"]},
            ):
                assert await hooks.pre(arguments) is not None
    assert len(hooks.receipts) == 3


async def test_a_tool_that_came_later_and_does_not_fit_is_stopped(tmp_path: Path) -> None:
    """Our choice: what could not be bound at load fails closed."""
    when = {"source": "arguments", "any": "text", "regex": "^rm"}
    hook = write_hook(tmp_path, "guard", CONTINUE, [{"name": "PreToolUse", "when": when}])
    config = configure(tmp_path, [hook])
    write_tool(tmp_path, "later", "", language="python")
    later = raw_exec.load_config(write_config(tmp_path, ["later"]))
    from raw_exec.tools import load_registry

    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            call = hooks.call({})
            call.tool = load_registry(later).get("later")
            with pytest.raises(raw_exec.RawExecError) as caught:
                await hooks.service.pre_tool(call)
    assert refusal_of(caught.value)[2] == {
        "hook": "agent/guard",
        "event": "PreToolUse",
        "error": "unbindable",
    }


async def test_a_session_event_is_told_with_its_facts_and_ids(tmp_path: Path) -> None:
    """Contract: the library exposes session events; a fact can't pose as a contract field."""
    events = [{"name": "SessionStart"}, {"name": "Stop"}]
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, events)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            decision = await hooks.service.session_event(
                "SessionStart",
                {"reason": "new", "event": "PreToolUse", "cwd": "/"},
                HookIds("s1", "t1"),
            )
            nothing = await hooks.service.session_event("SessionEnd")
    assert (decision.allowed, decision.reason) == (True, None)
    assert json.loads(decision.receipts[0].message or "") == {
        "protocol_version": 2,
        "event": "SessionStart",
        "cwd": str(tmp_path),
        "agent_id": "a",
        "session_id": "s1",
        "turn_id": "t1",
        "reason": "new",
    }
    assert (nothing.allowed, nothing.receipts) == (True, ())


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"])
@pytest.mark.parametrize(
    ("source", "gate", "told"),
    [
        (CONTINUE, ("continued", None), ("continued", None)),
        (DENY, ("denied", None), ("warned", "deny_ignored")),
        ("raise SystemExit(2)", ("denied", None), ("warned", "deny_ignored")),
        ("raise SystemExit(3)", ("blocked", "nonzero_exit"), ("warned", "nonzero_exit")),
    ],
)
async def test_only_a_prompt_can_be_stopped(
    tmp_path: Path, event: str, source: str, gate: Any, told: Any
) -> None:
    """Contract: gates are UserPromptSubmit and PreToolUse; every other event only tells."""
    ids = [write_hook(tmp_path, name, source, [{"name": event}]) for name in ("one", "two")]
    with trio.fail_after(30):
        async with opened(configure(tmp_path, ids), tmp_path) as hooks:
            decision = await hooks.service.session_event(event, {"prompt": "hello"})
    is_gate = event == "UserPromptSubmit"
    expected = gate if is_gate else told
    stops = is_gate and source != CONTINUE
    assert [(r.outcome, r.error) for r in decision.receipts] == [expected] * (1 if stops else 2)
    assert decision.allowed is not stops
    assert (decision.reason is None) is not stops


async def test_an_unknown_or_tool_event_is_no_session_event(tmp_path: Path) -> None:
    """Our choice: a mistake of the host is told to the host."""
    async with opened(configure(tmp_path, []), tmp_path) as hooks:
        for event in ("PreToolUse", "stop", ""):
            with pytest.raises(raw_exec.ConfigError):
                await hooks.service.session_event(event)


def test_a_receipt_is_json_and_its_facts_leave_the_message_out() -> None:
    """Contract: id, event, outcome, elapsed, message or error code."""
    receipt = HookReceipt("hook_1", "agent/g", "PreToolUse", "denied", 1.23456, "why", None, "c")
    common = {"id": "hook_1", "hook": "agent/g", "event": "PreToolUse", "outcome": "denied"}
    assert receipt.facts() == {**common, "elapsed_ms": 1.235, "tool_call_id": "c"}
    assert receipt.as_dict() == {**receipt.facts(), "message": "why"}
