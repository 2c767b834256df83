"""The two example hooks work from the configuration that their page shows."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import trio

import raw_exec
from requires import require_node
from toolbox import write_tool

EXAMPLES = Path(__file__).parents[2] / "examples" / "hooks"


def shown_config(root: Path, *tools: str) -> raw_exec.Config:
    """Write the configuration of the page, with the examples beside it and more tools."""
    found = re.search(r"```json\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)
    assert found is not None
    document = json.loads(found.group(1))
    document["agents"]["main"]["tools"]["use"] += tools
    for folder in EXAMPLES.iterdir():
        if folder.is_dir():
            shutil.copytree(folder, root / "hooks" / folder.name)
    (root / "config.json").write_text(json.dumps(document))
    (root / "config.json").chmod(0o600)
    return raw_exec.load_config(root / "config.json")


@pytest.mark.slow
async def test_the_gate_stops_rm_and_nothing_else(tmp_path: Path) -> None:
    """Issue: a gate on rm in bash commands, in a pair with what still works."""
    require_node()
    work = tmp_path / "work"
    work.mkdir()
    (work / "keep").touch()
    with trio.fail_after(100):
        async with raw_exec.open_runtime(shown_config(tmp_path), cwd=work) as runtime:
            denied = await runtime.dispatch(
                "bash", {"commands": [{"command": "ls"}, {"command": "true && rm keep"}]}
            )
            ran = await runtime.dispatch("bash", {"commands": [{"command": "echo rm; ls"}]})
    assert (denied.code, (work / "keep").exists()) == ("hook_denied", True)
    assert "1 of 2 commands would remove files" in denied.text
    assert (ran.is_error, ran.hooks) == (False, ())


@pytest.mark.slow
@pytest.mark.parametrize("granted", [True, False])
async def test_the_notification_tells_of_a_failure(tmp_path: Path, granted: bool) -> None:
    """Issue: a notification on failure; the file needs a grant, the message does not."""
    work = tmp_path / "work"
    work.mkdir()
    source = "def handler(args, context):\n    raise ValueError('x')\n"
    write_tool(tmp_path, "bad", source, language="python")
    config = shown_config(tmp_path, "agent/bad")
    if not granted:
        document = json.loads((tmp_path / "config.json").read_text())
        del document["sandbox"]
        (tmp_path / "config.json").write_text(json.dumps(document))
        config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(100):
        async with raw_exec.open_runtime(config, cwd=work) as runtime:
            result = await runtime.dispatch("bad", {})
            fine = await runtime.dispatch("bash", {"commands": [{"command": "exit 3"}]})
    (receipt,) = result.hooks
    assert (receipt.hook, receipt.outcome) == ("agent/notify-failure", "continued")
    log = work / ".raw-failures.log"
    if granted:
        assert receipt.message == "agent/bad failed: handler_error"
        assert log.read_text().endswith(" agent/bad failed: handler_error\n")
    else:
        assert receipt.message == (
            "agent/bad failed: handler_error (not granted: .raw-failures.log)"
        )
        assert not log.exists()
    assert fine.hooks == ()
