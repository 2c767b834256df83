"""What a call leaves outside its process is gone before the next call."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

import raw_exec
from requires import require_node
from toolbox import js_config, py_config

BASELINE = ("no-userns", "no-cgroup")
SPAWNING = {
    "sandbox": {
        "profiles": {"spawning": {"extends": "workspace", "processes": "allowed"}},
        "default": "spawning",
    }
}


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [(), BASELINE], ids=["best", "baseline"])
async def test_scratch_files_of_a_call_are_gone_before_the_next(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Corpus S17: the worker stays warm, its private directory does not."""
    require_node()
    body = (
        "const seen = fs.readdirSync(process.env.TMPDIR);\n"
        "if (args.leave) fs.writeFileSync(process.env.TMPDIR + '/left', 'x');\n"
        "return { content: [{ type: 'json', value: seen }] };"
    )
    config = js_config(tmp_path, body, before="import fs from 'node:fs';")
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path, simulate=simulate) as runtime:
            call = runtime.registry.dispatch
            first = await call("t", {"leave": True})
            second = await call("t", {})
    assert (first.content[0]["value"], second.content[0]["value"]) == ([], []), (first, second)
    assert second.usage["worker"] == "warm"


@pytest.mark.slow
@pytest.mark.parametrize("simulate", [(), BASELINE], ids=["best", "baseline"])
async def test_a_process_that_outlives_its_call_ends_its_worker(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Corpus P04: setsid, double fork, return success; nothing lives on."""
    marker = tmp_path / "pid"
    body = (
        "import os, subprocess\n"
        "if args.get('good'):\n    return {'content': [{'type': 'text', 'text': 'ok'}]}\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        open({str(marker)!r}, 'w').write('up')\n"
        "        os.execv('/bin/sleep', ['sleep', '999.25'])\n"
        "    os._exit(0)\n"
        "import time\n"
        f"while not os.path.exists({str(marker)!r}):\n    time.sleep(0.01)\n"
        "return {'content': [{'type': 'text', 'text': 'done'}]}"
    )
    config = py_config(tmp_path, body, **SPAWNING)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path, simulate=simulate) as runtime:
            call = runtime.registry.dispatch
            assert (await call("t", {})).text == "done"
            assert not _runs("999.25")
            assert runtime.statistics().pool.live == 0
            assert (await call("t", {"good": True})).text == "ok"


def _runs(argument: str) -> bool:
    """Whether a process with this argument lives anywhere on the host."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argument.encode() in words:
                return True
    return False
