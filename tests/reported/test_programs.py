"""What users reported about ordinary programs that a sandbox broke, and litter it left.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from requires import require, require_node
from tests.reported.support import PROCESSES, TIERS, Session, node_tool, shell

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("simulate", TIERS)
async def test_spawn_sync_fails_after_a_child_that_succeeded(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """openai/codex #41175: every way of Node to run a child, with input and output."""
    require_node()
    body = """
const sync = cp.spawnSync('cat', { input: 'in', encoding: 'utf8' });
const exec = cp.execSync('echo out; exit 0', { encoding: 'utf8' });
const async_ = await promisify(cp.execFile)('sh', ['-c', 'echo async']);
const stdio = ['ignore', 'ignore', 'ignore', 'ipc'];
const child = cp.spawn(process.execPath, ['-e', 'process.send(1)'], { stdio });
const said = await new Promise((done, no) => {
  child.once('message', done); child.once('error', no);
});
const value = [sync.error?.code ?? null, sync.status, sync.stdout, exec, async_.stdout, said];
return { content: [{ type: 'json', value }] };
"""
    before = "import cp from 'node:child_process'; import { promisify } from 'node:util';"
    async with node_tool(tmp_path, body, simulate, before=before, **PROCESSES) as opened:
        assert await opened.value() == [None, 0, "in", "out\n", "async\n", 1]


POOL = """
import concurrent.futures as f, multiprocessing as m
def square(n):
    return n * n
if __name__ == "__main__":
    context = m.get_context("{method}")
    with context.Lock(), f.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(square, range(4))))
"""


BASELINE = ("no-userns", "no-cgroup")


async def _require_namespaces(opened: Session) -> None:
    found = (await opened.runtime.launcher.capabilities())["namespaces"]
    require("userns", found["works"], str(found["message"]))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_python_multiprocessing_has_no_semaphores_and_no_fork_server(
    tmp_path: Path, method: str
) -> None:
    """openai/codex #7251, #24943: locks and pools of processes by every start method."""
    async with shell(tmp_path) as opened:
        await _require_namespaces(opened)
        (opened.work / "pool.py").write_text(POOL.format(method=method))
        (row,) = await opened.bash("python3 pool.py")
        assert (row["stdout"], row["exit_code"]) == ("[0, 1, 4, 9]\n", 0), row["stderr"][-600:]


async def test_semaphores_without_a_private_folder_for_them_fail_without_a_word(
    tmp_path: Path,
) -> None:
    """openai/codex #7251: the baseline shares no ``/dev/shm``, and a program is told so."""
    async with shell(tmp_path, BASELINE) as opened:
        (opened.work / "pool.py").write_text(POOL.format(method="fork"))
        pipe = "import multiprocessing as m; a, b = m.Pipe(); a.send('sent'); print(b.recv())"
        rows = await opened.bash("/usr/bin/python3 pool.py", f'/usr/bin/python3 -c "{pipe}"')
        assert (rows[0]["exit_code"], rows[0]["timed_out"]) == (1, False)
        assert rows[0]["stderr"].endswith("PermissionError: [Errno 13] Permission denied\n")
        assert (rows[1]["stdout"], rows[1]["exit_code"]) == ("sent\n", 0), rows[1]


UNIX_SERVER = """
const net = require('net');
const path = process.env.TMPDIR + '/s.sock';
const server = net.createServer((c) => c.end('hello'));
const show = (data) => { console.log(String(data)); server.close(); };
server.listen(path, () => net.connect(path).on('data', show));
"""


async def test_blocked_unix_sockets_break_development_tools(tmp_path: Path) -> None:
    """anthropics/claude-code #44180, #41254, openai/codex #39140: as tsx and MSBuild use them."""
    require_node()
    async with shell(tmp_path) as opened:
        await _require_namespaces(opened)
        (opened.work / "server.cjs").write_text(UNIX_SERVER)
        (row,) = await opened.bash("node server.cjs")
        assert (row["stdout"], row["exit_code"]) == ("hello\n", 0), row["stderr"][-600:]


async def test_a_blocked_unix_socket_looks_like_another_error(tmp_path: Path) -> None:
    """anthropics/claude-code #44180, #41254, openai/codex #39140: the baseline can not tell the
    host's sockets from its own, so there are none, and the error number says so.
    """
    require_node()
    async with shell(tmp_path, BASELINE) as opened:
        (opened.work / "server.cjs").write_text(UNIX_SERVER)
        (row,) = await opened.bash("OPENSSL_CONF=/dev/null node server.cjs")
        assert (row["stdout"], row["exit_code"]) == ("", 1)
        assert "code: 'EAFNOSUPPORT'" in row["stderr"]


@pytest.mark.parametrize("simulate", TIERS)
async def test_an_interpreter_that_is_there_can_not_start(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """openai/codex #41175, #7251: Node and Python start in a shell whatever the host has.

    Seen here while writing the tests of these reports: both exist, and neither could start.
    """
    require_node()
    async with shell(tmp_path, simulate) as opened:
        rows = await opened.bash(
            "node -p 'require(\"crypto\").randomBytes(4).length'",
            "python3 -c 'import ssl; ssl.create_default_context(); print(4)'",
        )
        assert [(row["stdout"], row["exit_code"]) for row in rows] == [("4\n", 0)] * 2, rows


@pytest.mark.parametrize("simulate", TIERS)
async def test_name_lookup_is_dead_with_the_network_granted(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """anthropics/claude-agent-sdk-typescript #396, NVIDIA/OpenShell #364, #269, NemoClaw #626:
    a name is found and fetched; nothing here leaves this host.
    """
    require_node()
    body = """
const server = http.createServer((_, reply) => reply.end('served'));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const { address } = await dns.lookup('localhost', { family: 4 });
const got = await (await fetch(`http://localhost:${server.address().port}/`)).text();
await new Promise((done) => { server.close(done); server.closeAllConnections(); });
return { content: [{ type: 'json', value: [address, got] }] };
"""
    before = "import http from 'node:http'; import dns from 'node:dns/promises';"
    sandbox = {
        "profiles": {"online": {"extends": "workspace", "network": "host"}},
        "tools": {"agent/t": "online"},
    }
    async with node_tool(tmp_path, body, simulate, before=before, sandbox=sandbox) as opened:
        assert await opened.value() == ["127.0.0.1", "served"]


@pytest.mark.parametrize("simulate", TIERS)
async def test_mount_points_for_absent_paths_stay_on_the_host_as_empty_files(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """anthropic-experimental/sandbox-runtime #139, #85, anthropics/claude-code #46584,
    openai/codex #31599: grants of what is not there make nothing, while it runs and after.
    """
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    absent = [str(work / ".git" / "hooks"), str(home / ".bashrc"), str(home / "a" / "b")]
    sandbox = {
        "profiles": {"odd": {"extends": "shell", "read": ["$CWD", *absent],
                             "write": ["$CWD", absent[2]]}},
        "tools": {"builtin/bash": "odd"},
    }  # fmt: skip
    async with shell(tmp_path, simulate, sandbox=sandbox) as opened:
        (row,) = await opened.bash("ls -A; echo mine > mine")
        assert (row["stdout"], row["exit_code"]) == ("", 0), row
        assert [path.name for path in work.iterdir()] == ["mine"]
        assert list(home.iterdir()) == []
    assert [path.name for path in work.iterdir()] == ["mine"]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("simulate", TIERS)
async def test_npm_finds_neither_its_cache_nor_the_programs_of_a_package(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """RyderFreeman4Logos/cli-sub-agent #2649, oalders/dot-files #917: run, exec, and the cache."""
    require_node()
    npm = shutil.which("npm", path="/usr/local/bin:/usr/bin")
    require("npm", npm is not None, "no npm where the shell profile looks for programs")
    async with shell(tmp_path, simulate) as opened:
        folder = opened.work / "node_modules" / "hello"
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"name": "hello", "version": "1.0.0"}')
        (folder / "hello.js").write_text("#!/usr/bin/env node\nconsole.log('hello');\n")
        (folder / "hello.js").chmod(0o755)
        (opened.work / "node_modules" / ".bin").mkdir()
        (opened.work / "node_modules" / ".bin" / "hello").symlink_to("../hello/hello.js")
        (opened.work / "package.json").write_text('{"scripts": {"hi": "hello"}}')
        rows = await opened.bash(
            "npm run --silent hi",
            "npm exec --offline -- hello",
            "npm cache verify >&2",
        )
        assert [row["exit_code"] for row in rows] == [0, 0, 0], rows
        assert [row["stdout"] for row in rows[:2]] == ["hello\n", "hello\n"]
