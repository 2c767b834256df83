"""Python workers: forked warm from a process that knows nothing of other spawns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from requires import require
from tests.launcher.box import SIMULATE
from tests.launcher.client import ROOT, SHARED, SYSTEM, Client, Refused

STDLIB = [str(Path(os.__file__).parent), sys.base_prefix + "/lib"]

SERVE = """
import os, sys, gc, json
def serve():
    code = b""
    while True:
        part = os.read(3, 65536)
        if not part:
            break
        code += part
    try:
        exec(code.decode(), {"__name__": "plugin"})
    except BaseException as exc:
        os.write(4, f"{type(exc).__name__}: {exc}".encode())
    os._exit(0)
"""


@pytest.fixture(scope="module")
def launcher_copy() -> Iterator[Path]:
    """The real launcher beside a worker that runs what it reads."""
    base = Path(SHARED) / f"raw-copy-{os.getpid()}"
    shutil.copytree(ROOT / "workers" / "launcher", base / "launcher")
    (base / "python").mkdir()
    (base / "python" / "main.py").write_text(SERVE)
    yield base / "launcher" / "main.py"
    shutil.rmtree(base)


@pytest.fixture(params=SIMULATE)
def client(request: pytest.FixtureRequest, launcher_copy: Path) -> Iterator[Client]:
    """One launcher for each tier."""
    with Client(launcher=launcher_copy, simulate=SIMULATE[request.param]) as found:
        require("landlock", found.capabilities["landlock"]["works"], "no Landlock")
        if request.param != "baseline":
            works = found.capabilities["namespaces"]["works"]
            require("userns", works, "no user namespaces")
        if request.param == "cgroup":
            require("cgroup", found.capabilities["cgroup"]["works"], "no cgroup")
        found.tier = request.param  # type: ignore[attr-defined]
        yield found


def run(client: Client, code: str, **changes: object) -> str:
    """Run code in a forked worker; return what it wrote to descriptor 4."""
    code_read, code_write = os.pipe()
    out_read, out_write = os.pipe()
    try:
        os.write(code_write, code.encode())
        os.close(code_write)
        options: dict[str, object] = {
            "tier": client.tier,  # type: ignore[attr-defined]
            "read": [*SYSTEM, *STDLIB],
            "exec": [],
            "cwd": "/usr",
            **changes,
        }
        child = client.spawn([], kind="python", fds={3: code_read, 4: out_write}, **options)  # type: ignore[arg-type]
        os.close(out_write)
        out_write = -1
        text = b""
        while part := os.read(out_read, 65536):
            text += part
        client.wait("exited", child["id"])
        return text.decode()
    finally:
        for fd in (code_read, out_read, out_write):
            if fd >= 0:
                os.close(fd)


def test_worker_continues_confined_in_the_fork(client: Client) -> None:
    """Same rules as an executed one: files, processes, programs, sockets."""
    assert run(
        client,
        "import os, errno, socket\n"
        "def a(f, *x):\n"
        "    try: f(*x)\n"
        "    except OSError as e: return errno.errorcode[e.errno]\n"
        "    return 'ok'\n"
        "r=[a(open, '/etc/shadow'), a(os.fork), a(os.execv, '/bin/true', ['true']),"
        " a(socket.socket), a(open, os.environ['HOME']+'/f', 'w')]\n"
        "os.write(4, ' '.join(r).encode())",
    ) == {
        "baseline": "EACCES EPERM EPERM EAFNOSUPPORT ok",
    }.get(
        client.tier,  # type: ignore[attr-defined]
        "ENOENT EPERM EPERM EAFNOSUPPORT ok",
    )


FIND_NEEDLE = (
    "import os, re\n"
    "needle = b'T3-' + b'needle' * 3\n"
    "found = 0\n"
    "with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as mem:\n"
    "    for line in maps:\n"
    "        span, mode = line.split()[:2]\n"
    "        if 'r' not in mode or '[v' in line: continue\n"
    "        low, high = (int(x, 16) for x in span.split('-'))\n"
    "        mem.seek(low)\n"
    "        try: data = mem.read(high - low)\n"
    "        except OSError: continue\n"
    "        pos = data.find(b'T3-need')\n"
    "        while pos >= 0:\n"
    "            found += data[pos:pos+21] == needle and data[pos+21:pos+22] == b'\"'\n"
    "            pos = data.find(b'T3-need', pos + 1)\n"
    "        del data\n"
    "os.write(4, str(found).encode())"
)
"""Counts another spawn's secret, as a request quotes it, in every readable page of its own."""
PLANT_NEEDLE = "planted = b'T3-' + b'needle' * 3 + b'\"'\n"


def needles(client: Client, before: str = "") -> int:
    """Return how often a new worker finds the secret in its memory."""
    return int(
        run(client, before + FIND_NEEDLE, rlimits={"data": 1 << 30, "nofile": 64, "core": 0})
    )


def require_readable_memory() -> None:
    """Without root, the search is refused and would find nothing."""
    require("root", os.geteuid() == 0, "a forked worker of an ordinary user can't read its memory")


def test_memory_of_a_worker_holds_no_secret_of_another_spawn(client: Client) -> None:
    """Our find: a fork of the launcher itself would carry other spawns' environments."""
    require_readable_memory()
    secret = "T3-" + "needle" * 3
    ended = client.run(
        ["/bin/true"],
        env={"TOKEN": secret},
        tier=client.tier,  # type: ignore[attr-defined]
    )
    assert ended.exited["code"] == 0
    assert needles(client) == 0
    assert needles(client, PLANT_NEEDLE) > 0


def test_worker_sees_no_module_state_or_environment_of_the_launcher(client: Client) -> None:
    """F09: ``os.environ`` is what was asked; the launcher's modules are gone."""
    out = run(
        client,
        "import os, sys\n"
        "bad=[n for n in sys.modules if n.split('.')[0]=='launcher']\n"
        "env=sorted(set(os.environ)-{'LC_CTYPE'})\n"
        "fds=[]\n"
        "for n in range(200):\n"
        "    try: os.fstat(n); fds.append(n)\n"
        "    except OSError: pass\n"
        "os.write(4, repr((bad, env, fds, sys.argv)).encode())",
        env={"ONE": "1"},
    )
    wanted = ([], ["HOME", "ONE", "TEMP", "TMP", "TMPDIR"], [0, 1, 2, 3, 4], [""])
    assert out == repr(wanted)


def test_a_zygote_that_died_is_replaced_by_one_that_knows_no_requests(client: Client) -> None:
    """Security: the replacement is a program of its own, not a fork of the launcher."""
    require_readable_memory()
    secret = "T3-" + "needle" * 3
    client.run(
        ["/bin/true"],
        env={"TOKEN": secret},
        tier=client.tier,  # type: ignore[attr-defined]
    )
    with open(f"/proc/{client.process.pid}/task/{client.process.pid}/children") as listing:
        (zygote,) = [int(word) for word in listing.read().split()]
    os.kill(zygote, 9)
    found, steps = None, set()
    while found is None:
        try:
            found = needles(client)
        except Refused as refused:
            steps.add(refused.step)
    # Until the launcher has seen the death, set-up itself is what ends.
    assert steps <= {"setup", "python"}
    assert found == 0
    assert needles(client, PLANT_NEEDLE) > 0


def test_missing_worker_is_named(launcher_copy: Path) -> None:
    """An installation without the Python worker: refused at step ``python``."""
    moved = launcher_copy.parent.parent / "elsewhere"
    python = launcher_copy.parent.parent / "python"
    python.rename(moved)
    try:
        with Client(launcher=launcher_copy) as client:
            with pytest.raises(Refused) as caught:
                client.spawn([], kind="python")
            assert caught.value.step == "python"
    finally:
        moved.rename(python)
