"""An ESM tool on a view: its runtime waits in the namespace before the call."""

from __future__ import annotations

from pathlib import Path

import pytest

import raw_exec
from requires import require_node
from toolbox import js_config, text_result, write_config

BODY = """
const names = fs.readdirSync('.').sort().filter((n) => fs.statSync(n).isFile());
fs.writeFileSync('out', 'written');
fs.appendFileSync('a', '+');
fs.rmSync('gone', { recursive: true });
let moved = 'ok';
try { fs.renameSync('dir', 'dir2'); } catch (e) { moved = e.code; }
fs.cpSync('dir', 'dir2', { recursive: true });
"""


@pytest.mark.slow
async def test_an_esm_handler_sees_the_tree_of_its_call(tmp_path: Path) -> None:
    """Files that came, changed and went while the worker waited, and no stale module."""
    require_node()
    answer = text_result("JSON.stringify([moved, names, JSON.parse(read('package.json')).v])")
    js_config(
        tmp_path,
        BODY + answer,
        before="import fs from 'node:fs';\nconst read = (n) => fs.readFileSync(n, 'utf8');",
    )
    profiles = {"o": {"extends": "workspace", "effects": "observed"}}
    path = write_config(tmp_path, ["t"], sandbox={"profiles": profiles, "default": "o"})
    ws = tmp_path / "ws"
    (ws / "dir").mkdir(parents=True)
    (ws / "dir" / "f").write_text("f")
    (ws / "package.json").write_text('{"v": 1}')
    async with raw_exec.open_runtime(raw_exec.load_config(path), cwd=ws) as runtime:
        tool = runtime.loaded.get("t")
        assert tool is not None
        await runtime.pool.warm(runtime.spec_for(tool, str(ws)))
        (ws / "package.json").write_text('{"v": 2}')
        (ws / "a").write_text("a")
        (ws / "gone").mkdir()
        (ws / "gone" / "x").write_text("x")
        told = await runtime.registry.dispatch("t", {})
    assert (told.code, told.committed, told.text) == (
        None,
        True,
        '["EXDEV",["a","package.json"],2]',
    ), told
    found = {str(p.relative_to(ws)): p.read_text() for p in ws.rglob("*") if p.is_file()}
    assert found == {
        "a": "a+",
        "dir/f": "f",
        "dir2/f": "f",
        "out": "written",
        "package.json": '{"v": 2}',
    }
