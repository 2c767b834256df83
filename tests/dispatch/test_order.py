"""The order of a dispatch is data, and a refusal stops the call before the next step."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import raw_exec
from raw_exec.dispatch.outcome import CODES, ToolResult, exit_status
from raw_exec.dispatch.pipeline import STAGE_NAMES, STAGES
from toolbox import py_config

WHEN = {"source": "arguments", "any": "text", "regex": "x"}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def test_the_stages_are_the_seven_steps_in_order() -> None:
    """Seed 1, "Dispatch order"."""
    assert [STAGE_NAMES[stage] for stage in STAGES] == [
        "exposure",
        "schema",
        "validate_args",
        "effects",
        "rules",
        "hooks",
        "approval",
        "handler",
        "result",
        "settle",
        "post_hooks",
        "cap",
    ]


def _config(root: Path, rules: list[dict[str, object]]) -> raw_exec.Config:
    from toolbox import write_config, write_tool

    source = (
        "def validate_args(args):\n    return 'no' if args['text'] == 'bad' else None\n"
        "def handler(args, context):\n"
        "    return {'content': [{'type': 'text', 'text': args['text']}]}\n"
    )
    write_tool(root, "t", source, language="python", schema=SCHEMA, condition_sources=["arguments"])
    return raw_exec.load_config(write_config(root, ["t"], rules=rules))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "arguments", "code", "stage"),
    [
        ([{"match": "*", "effect": "deny"}], {"wrong": 1}, "tool_denied", "exposure"),
        ([{"match": "*", "effect": "ask"}], {"wrong": 1}, "invalid_arguments", "schema"),
        ([{"match": "*", "effect": "ask"}], {"text": "bad"}, "invalid_arguments", "validate_args"),
        ([{"match": "*", "effect": "ask"}], {"text": "a"}, "approval_required", "approval"),
        (
            [{"match": "*", "effect": "ask", "when": WHEN}],
            {"text": "xy"},
            "approval_required",
            "approval",
        ),
        ([{"match": "*", "effect": "ask", "when": WHEN}], {"text": "a"}, None, "handler"),
        (
            [{"match": "*", "effect": "deny"}, {"match": "agent/?", "effect": "allow"}],
            {"text": "a"},
            None,
            "handler",
        ),
    ],
)
async def test_the_first_step_that_refuses_decides(
    tmp_path: Path,
    rules: list[dict[str, object]],
    arguments: dict[str, object],
    code: str | None,
    stage: str,
) -> None:
    """A call that several steps would refuse is refused by the first."""
    config = _config(tmp_path, rules)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", arguments)
    assert (result.code, result.stage) == (code, stage), result


@pytest.mark.slow
@pytest.mark.parametrize("answer", [False, "deny", None, 1, ValueError("broken approver")])
async def test_an_approver_that_does_not_say_yes_stops_the_call(
    tmp_path: Path, answer: object
) -> None:
    """Fail closed, also when the approver itself fails."""
    config = _config(tmp_path, [{"match": "*", "effect": "ask"}])

    def approve(_request: raw_exec.ApprovalRequest) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path, approve=approve) as runtime:
            result = await runtime.registry.dispatch("t", {"text": "a"})
            assert runtime.statistics().pool.calls <= 1  # the descriptor's, never the handler's
    assert (result.code, result.stage, result.enforced) == ("approval_denied", "approval", {})


@pytest.mark.slow
async def test_a_cancelled_question_sets_its_signal(tmp_path: Path) -> None:
    """Seed 1, "Approval": the request carries an abort signal."""
    config = _config(tmp_path, [{"match": "*", "effect": "ask"}])
    seen: list[raw_exec.ApprovalRequest] = []

    async def approve(request: raw_exec.ApprovalRequest) -> bool:
        seen.append(request)
        scope.cancel()
        await trio.sleep_forever()
        return True

    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path, approve=approve) as runtime:
            with trio.CancelScope() as scope:
                await runtime.registry.dispatch("t", {"text": "a"})
    assert seen[0].signal.aborted
    assert seen[0].signal.reason == "cancelled"


@pytest.mark.slow
async def test_selected_hooks_are_not_silently_ignored(tmp_path: Path) -> None:
    """A gate that would not run must not look as if it did."""
    py_config(tmp_path, "return {'content': []}", agent={"hooks": {"use": ["agent/guard"]}})
    config = raw_exec.load_config(tmp_path / "config.json")
    with pytest.raises(raw_exec.ConfigError) as caught:
        async with raw_exec.open_runtime(config, cwd=tmp_path):
            pass
    assert caught.value.code == "hooks_invalid"


@pytest.mark.slow
async def test_an_exception_of_the_body_comes_out_as_it_was_raised(tmp_path: Path) -> None:
    """No exception group that a caller could not expect."""
    config = py_config(tmp_path, "return {'content': []}")

    async def fail_inside() -> None:
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            await runtime.registry.dispatch("t", {})
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await fail_inside()


def test_every_code_has_an_exit_status() -> None:
    """design, "Command line": 1 to 8 and 130."""
    statuses = {code: exit_status(ToolResult((), True, code, "", {}, {}, 0.0)) for code in CODES}
    assert set(statuses.values()) <= {1, 2, 3, 4, 5, 6, 7, 8, 130}
    assert exit_status(ToolResult((), True, "timeout", "", {}, {}, 0.0, origin="tool")) == 1
