"""The authoring document's verify steps 3 to 5, through the public API, with its strings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import trio

import raw_exec
from requires import require_node
from toolbox import footprint, write_config

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "tools"


@pytest.fixture
def config(tmp_path: Path) -> raw_exec.Config:
    require_node()
    shutil.copytree(EXAMPLES / "append_notes", tmp_path / "tools" / "append_notes")
    return raw_exec.load_config(write_config(tmp_path, ["append_notes"]), require_model=False)


async def test_steps_three_and_four(config: raw_exec.Config, tmp_path: Path) -> None:
    """Seed 2, verify 3-4: refused without a newline, appended with one, appended again."""
    work = tmp_path / "work"
    work.mkdir()
    before = footprint()
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=work) as runtime:
            assert runtime.registry.names == ("append_notes",)
            call = runtime.registry.dispatch

            refused = await call(
                "append_notes", {"path": "notes.txt", "text": "first"}, max_output_bytes=8192
            )
            assert (refused.is_error, refused.code) == (True, "invalid_arguments")
            assert refused.stage == "validate_args"
            assert "text must end with a newline" in refused.text
            assert not (work / "notes.txt").exists()

            good = {"path": "notes.txt", "text": "first\n"}
            done = await call("append_notes", good, max_output_bytes=8192)
            assert (done.is_error, done.text) == (False, "Appended 6 bytes to notes.txt")
            assert (work / "notes.txt").read_text() == "first\n"
            assert done.enforced["landlock"] > 0
            assert done.enforced["seccomp"] is True

            again = await call("append_notes", good)
            assert again.usage["worker"] == "warm"
            assert (work / "notes.txt").read_text() == "first\nfirst\n"

            extra = await call("append_notes", {**good, "extra": 1})
            assert (extra.code, extra.stage) == ("invalid_arguments", "schema")
            assert extra.detail["problems"][0]["pointer"] in ("", "/extra")
    assert footprint() == before


async def test_step_five_rules(tmp_path: Path) -> None:
    """Seed 2, verify 5: a rule that asks, without and with somebody to ask."""
    require_node()
    shutil.copytree(EXAMPLES / "append_notes", tmp_path / "tools" / "append_notes")
    rules = [{"match": "agent/append_notes", "effect": "ask"}]
    config = raw_exec.load_config(write_config(tmp_path, ["append_notes"], rules=rules))
    work = tmp_path / "work"
    work.mkdir()
    good = {"path": "notes.txt", "text": "first\n"}
    asked: list[raw_exec.ApprovalRequest] = []

    async def approve(request: raw_exec.ApprovalRequest) -> str:
        asked.append(request)
        return "allow"

    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=work) as runtime:
            refused = await runtime.registry.dispatch("append_notes", good)
        assert (refused.code, refused.stage) == ("approval_required", "approval")
        assert refused.detail["rule"]["index"] == 0
        assert not (work / "notes.txt").exists()
        async with raw_exec.open_runtime(config, cwd=work, approve=approve) as runtime:
            done = await runtime.registry.dispatch("append_notes", good, tool_call_id="c1")
    assert not done.is_error
    (request,) = asked
    assert json.loads(json.dumps(request.as_dict())) == {
        "identity": "agent/append_notes",
        "name": "append_notes",
        "arguments": good,
        "effects": {"files": [{"path": str(work / "notes.txt"), "operation": "write"}]},
        "toolCallId": "c1",
    }
