"""Hooks in a whole dispatch: before approval, after the handler, never without it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.dispatch import ToolResult
from tests.hooks.support import CONTINUE, DENY, ECHO, configure, write_hook
from toolbox import write_config

ALL = [{"name": name} for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure")]
POST = ALL[1:]


async def dispatched(
    config: raw_exec.Config, cwd: Path, arguments: Any = None, **options: Any
) -> ToolResult:
    runtime_options = {k: options.pop(k) for k in ("approve", "audit") if k in options}
    with trio.fail_after(100):
        async with raw_exec.open_runtime(config, cwd=cwd, **runtime_options) as runtime:
            return await runtime.dispatch("t", arguments or {}, **options)


def told(result: ToolResult) -> list[tuple[str, Any]]:
    """Return event and told result of every receipt of an echoing hook."""
    return [
        (receipt.event, json.loads(receipt.message or "{}").get("tool", {}).get("result"))
        for receipt in result.hooks
    ]


@pytest.mark.slow
async def test_a_denied_call_runs_no_handler_and_asks_nobody(tmp_path: Path) -> None:
    """Contract: step 5 is before steps 6 and 7; later events are about handlers that ran."""
    asked: list[Any] = []
    handler = "def handler(args, context):\n    open('ran', 'w')\n    return {'content': []}\n"
    ids = [write_hook(tmp_path, "guard", DENY), write_hook(tmp_path, "post", ECHO, POST)]
    rules = [{"match": "*", "effect": "ask"}]
    config = configure(tmp_path, ids, handler=handler, rules=rules)
    result = await dispatched(config, tmp_path, approve=asked.append)
    assert (result.code, result.stage, result.origin, asked) == ("hook_denied", "hooks", "host", [])
    assert not (tmp_path / "ran").exists()
    shown = result.as_dict()
    assert shown["detail"]["hook"] == "agent/guard"
    assert [(h["hook"], h["outcome"], h["message"]) for h in shown["hooks"]] == [
        ("agent/guard", "denied", "no")
    ]


@pytest.mark.slow
async def test_a_hook_that_continues_does_not_approve(tmp_path: Path) -> None:
    """Contract: a hook never loosens policy."""
    rules = [{"match": "*", "effect": "ask"}]
    config = configure(tmp_path, [write_hook(tmp_path, "yes", CONTINUE)], rules=rules)
    result = await dispatched(config, tmp_path)
    assert (result.code, [h.outcome for h in result.hooks]) == ("approval_required", ["continued"])
    denied = configure(tmp_path, ["agent/yes"], rules=[{"match": "*", "effect": "deny"}])
    result = await dispatched(denied, tmp_path)
    assert (result.code, result.hooks) == ("tool_denied", ())


@pytest.mark.slow
async def test_arguments_that_do_not_fit_are_refused_before_any_hook(tmp_path: Path) -> None:
    """Contract: steps 2 to 4 come first."""
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, ALL)])
    result = await dispatched(config, tmp_path, {"unknown": 1})
    assert (result.code, result.hooks) == ("invalid_arguments", ())


@pytest.mark.slow
async def test_a_result_is_told_without_panels_and_before_it_is_cut(tmp_path: Path) -> None:
    """Contract: panel blocks are removed before hooks, caps come after them."""
    handler = (
        "def handler(args, context):\n"
        "    return {'content': [{'type': 'text', 'text': 'x' * 300},"
        " {'type': 'panel', 'panel': 'p', 'op': 'close'}, {'type': 'json', 'value': [1]}]}\n"
    )
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, ALL)], handler=handler)
    result = await dispatched(config, tmp_path, {"text": "a"}, max_output_bytes=100)
    content = [{"type": "text", "text": "x" * 300}, {"type": "json", "value": [1]}]
    assert told(result) == [
        ("PreToolUse", None),
        ("PostToolUse", {"content": content, "isError": False}),
    ]
    assert "truncated" in result.text


FAILING = {
    "its own error": (
        "    return {'content': [{'type': 'text', 'text': 'bad'}], 'isError': True, 'code': 'own'}",
        "own",
    ),
    "an exception": ("    raise ValueError('oops')", "handler_error"),
    "a crash": ("    import os; os._exit(7)", "worker_crashed"),
    "a wrong result": ("    return 7", "invalid_result"),
    "too much": (
        "    return {'content': [{'type': 'text', 'text': 'x' * (30 << 20)}]}",
        "output_limit",
    ),
    "a hang": ("    import time\n    while True: time.sleep(60)", "timeout"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAILING))
async def test_a_handler_that_ran_and_failed_is_told_as_a_failure(
    tmp_path: Path, name: str
) -> None:
    """Contract: PostToolUseFailure, whoever says that it failed; and no PostToolUse."""
    body, code = FAILING[name]
    handler = f"def handler(args, context):\n{body}\n"
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, POST)], handler=handler)
    seconds = 1.0 if name == "a hang" else None
    result = await dispatched(config, tmp_path, timeout_seconds=seconds)
    ((event, said),) = told(result)
    assert (event, said["isError"], said["code"]) == ("PostToolUseFailure", True, code)
    assert said["content"][0]["text"] == result.text
    assert (result.code, result.is_error) == (code, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "options", "code"),
    [
        ("raise ImportError('x')\n", {}, "handler_error"),
        ("def other(): pass\n", {}, "handler_error"),
    ],
)
async def test_a_handler_that_never_ran_is_not_told_of(
    tmp_path: Path, handler: str, options: dict[str, Any], code: str
) -> None:
    """Contract: post events fire only when a handler ran."""
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, POST)], handler=handler)
    result = await dispatched(config, tmp_path, **options)
    assert (result.code, result.hooks) == (code, ())


@pytest.mark.slow
async def test_a_notification_changes_nothing_of_the_result(tmp_path: Path) -> None:
    """Contract: it may say deny, or fail; the result stays what it was."""
    ids = [
        write_hook(tmp_path, "deny", DENY, POST),
        write_hook(tmp_path, "fail", "raise SystemExit(9)", POST),
        write_hook(tmp_path, "fine", CONTINUE, POST),
    ]
    result = await dispatched(configure(tmp_path, ids), tmp_path)
    assert (result.is_error, result.text) == (False, "ran")
    assert [(h.hook, h.outcome, h.error) for h in result.hooks] == [
        ("agent/deny", "warned", "deny_ignored"),
        ("agent/fail", "warned", "nonzero_exit"),
        ("agent/fine", "continued", None),
    ]


@pytest.mark.slow
async def test_the_handler_gets_the_arguments_that_hooks_saw(tmp_path: Path) -> None:
    """Contract: hooks, approval and the handler all see the same arguments."""
    handler = (
        "import json\ndef handler(args, context):\n"
        "    return {'content': [{'type': 'text', 'text': json.dumps(args)}]}\n"
    )
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO)], handler=handler)
    arguments = {"text": "a", "items": ["b"], "count": 3}
    result = await dispatched(config, tmp_path, arguments, source="user_action")
    seen = json.loads(result.hooks[0].message or "")["tool"]
    assert (seen["arguments"], seen["source"]) == (arguments, "user_action")
    assert json.loads(result.text) == arguments


@pytest.mark.slow
async def test_the_audit_log_has_the_receipts_without_their_messages(tmp_path: Path) -> None:
    """Contract: receipts; the log itself promises that nothing a plugin printed is in it."""
    say = 'print(\'{"decision":"continue","message":"tok-printed"}\')'
    ids = [write_hook(tmp_path, "say", say), write_hook(tmp_path, "no", DENY)]
    log = tmp_path / "audit.jsonl"
    await dispatched(configure(tmp_path, ids), tmp_path, audit=log)
    text = log.read_text()
    record = json.loads(text)
    assert "tok-printed" not in text
    assert [(h["hook"], h["event"], h["outcome"]) for h in record["hooks"]] == [
        ("agent/say", "PreToolUse", "continued"),
        ("agent/no", "PreToolUse", "denied"),
    ]
    assert record["detail"]["hook"] == "agent/no"
    assert record["detail"]["receipt"] == record["hooks"][1]["id"]


@pytest.mark.slow
async def test_a_secret_of_the_operator_is_taken_out_of_what_a_failing_hook_is_told(
    tmp_path: Path,
) -> None:
    """Our choice: words of the host are told as they are shown; receipts too are redacted."""
    handler = "def handler(args, context):\n    raise ValueError('tok-secret-value')\n"
    config = configure(
        tmp_path,
        [write_hook(tmp_path, "echo", ECHO, POST)],
        handler=handler,
        agent={"vars": ["key"]},
        vars={
            "key": {
                "description": "k",
                "access": "use",
                "source": {"kind": "literal", "value": "tok-secret-value"},
            }
        },
    )
    with trio.fail_after(100):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            await runtime.variables.resolve_env({"K": "key"})
            result = await runtime.dispatch("t", {})
    assert "tok-secret-value" not in json.dumps(result.as_dict())


@pytest.mark.slow
async def test_hooks_of_the_agent_that_was_chosen_run_and_no_others(tmp_path: Path) -> None:
    """Contract: ``agents.<a>.hooks.use``."""
    configure(tmp_path, [write_hook(tmp_path, "guard", DENY)])
    document = json.loads(write_config(tmp_path, ["t"]).read_text())
    document["agents"]["b"] = {**document["agents"]["a"], "hooks": {"use": ["agent/guard"]}}
    (tmp_path / "config.json").write_text(json.dumps(document))
    codes = []
    for agent in ("a", "b"):
        config = raw_exec.load_config(tmp_path / "config.json", agent=agent)
        codes.append((await dispatched(config, tmp_path)).code)
    assert codes == [None, "hook_denied"]


@pytest.mark.slow
async def test_a_call_that_is_given_up_tells_no_hooks(tmp_path: Path) -> None:
    """Our choice: who gives a call up waits for no more programs."""
    handler = (
        "import time\ndef handler(args, context):\n    open('started', 'w').close()\n"
        "    while True: time.sleep(60)\n"
    )
    os.mkfifo(tmp_path / "started")
    config = configure(tmp_path, [write_hook(tmp_path, "echo", ECHO, POST)], handler=handler)
    receipts: list[Any] = []
    with trio.fail_after(100):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            runtime.hooks.on_receipt = receipts.append
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.dispatch, "t", {})
                fd = await trio.to_thread.run_sync(os.open, tmp_path / "started", os.O_RDONLY)
                os.close(fd)
                nursery.cancel_scope.cancel()
    assert receipts == []
