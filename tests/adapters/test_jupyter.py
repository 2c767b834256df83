"""Both facades in a notebook, whose cells run inside an asyncio loop of the kernel's own."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import raw_exec
from requires import require
from toolbox import footprint

require(
    "jupyter",
    all(importlib.util.find_spec(name) for name in ("ipykernel", "nbclient", "nbformat")),
    "the packages ipykernel and nbclient are not installed",
)

import nbclient  # noqa: E402
import nbformat  # noqa: E402

_OPEN = """
import asyncio, os, raw_exec, raw_exec.aio, raw_exec.blocking
config = raw_exec.load_config({config!r})
where = dict(cwd={cwd!r}, cache_dir={cache!r})
"""
_ASYNC = """
async with raw_exec.aio.open_runtime(config, **where) as runtime:
    print((await runtime.registry.dispatch("echo", {"text": "await works in a cell"})).text)
"""
_ACROSS_CELLS = (
    "manager = raw_exec.aio.open_runtime(config, **where)\nruntime = await manager.__aenter__()",
    "print((await runtime.registry.dispatch('echo', {'text': 'open in one cell'})).text)",
    """
task = asyncio.ensure_future(runtime.registry.dispatch("wait", {"name": "cell"}))
while not os.path.exists(os.path.join(where["cwd"], "started-cell")):
    await asyncio.sleep(0.005)
task.cancel()
try:
    await task
except asyncio.CancelledError:
    print("cancelled in another")
""",
    "await manager.__aexit__(None, None, None)\nprint('closed in a third')",
)
_BLOCKING = """
with raw_exec.blocking.open_runtime(config, **where) as runtime:
    print(runtime.registry.dispatch("echo", {"text": "and without await"}).text)
"""


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(out["text"] for out in cell.outputs if out.output_type == "stream")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cells_of_a_notebook_use_both_facades(
    config: raw_exec.Config, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime lives across cells, a cell's task can be cancelled, and nothing is left."""
    before = footprint()
    kernels = tmp_path / "share" / "kernels" / "this"
    kernels.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "this", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "kernel"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    opening = _OPEN.format(config=str(config.path), cwd=str(tmp_path), cache=str(cache))
    sources = [opening, _ASYNC, *_ACROSS_CELLS, _BLOCKING]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    nbclient.NotebookClient(notebook, kernel_name="this", timeout=60).execute()
    assert [_printed(cell) for cell in notebook.cells] == [
        "",
        "await works in a cell\n",
        "",
        "open in one cell\n",
        "cancelled in another\n",
        "closed in a third\n",
        "and without await\n",
    ]
    # The runtimes were the kernel's; the sockets to it that this process keeps are not theirs.
    after = footprint()
    assert (after.children, after.roots) == (before.children, before.roots)
