"""What users reported about kernels, containers and filters: work, or say what is missing.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from raw_exec.sandbox import best_tier
from requires import require, require_node
from tests.launcher.client import ROOT, Client
from tests.reported.support import (
    OK,
    PROCESSES,
    TIERS,
    node_tool,
    python_tool,
    raw_command,
)
from toolbox import py_config

pytestmark = pytest.mark.slow

_MACHINE = os.uname().machine
_NUMBERS = {"mount": (165, 40), "landlock_create_ruleset": (444, 444)}


def without_call(name: str, number: int) -> tuple[str, ...]:
    """Return a prefix under whose filter a system call fails with an error number."""
    require("arch", _MACHINE in ("x86_64", "aarch64"), "no system call numbers for this machine")
    code = (
        f"import sys, os; sys.path.insert(0, {str(ROOT / 'workers')!r})\n"
        "from launcher import bpf, caps, seccomp, syscall_table, syscalls\n"
        "p = bpf.Program(syscall_table.AUDIT_ARCH[syscalls.ARCH])\n"
        f"p.call({_NUMBERS[name][_MACHINE == 'aarch64']}, bpf.error({number}))\n"
        "caps.set_no_new_privs(); seccomp.install(p.finish())\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (sys.executable, "-I", "-S", "-c", code)


def test_apparmor_lets_unshare_succeed_and_strips_what_it_gave(tmp_path: Path) -> None:
    """anthropic-experimental/sandbox-runtime #74, openai/codex #15057, google/nsjail #236,
    akitaonrails/ai-jail #34, NVIDIA/OpenShell #1895, gominimal/minimal #610: the map of users
    is refused; the baseline works and the hint names the setting.
    """
    program = tmp_path / "launcher.py"
    program.write_text(
        f"import os, runpy, sys\nsys.path.insert(0, {str(ROOT / 'workers')!r})\n"
        "real = os.open\n"
        "def refuse(path, *args, **options):\n"
        "    if path == '/proc/self/uid_map': raise PermissionError(1, os.strerror(1), path)\n"
        "    return real(path, *args, **options)\n"
        "os.open = refuse\n"
        f"sys.argv[0] = {str(ROOT / 'workers' / 'launcher' / 'main.py')!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    with Client(launcher=program) as client:
        found = client.capabilities["namespaces"]
        assert (found["works"], found["step"], found["errno"]) == (False, "uid_map", errno.EPERM)
        assert "kernel.apparmor_restrict_unprivileged_userns" in found["hint"]
        assert best_tier(client.capabilities) == "baseline"
        assert client.run(["/bin/echo", "ok"], use=["namespaces"]).out == "ok\n"


def test_a_namespace_without_the_right_to_mount_breaks_every_tool() -> None:
    """NVIDIA/OpenShell #1895, anthropics/claude-code #81799: named, and the baseline works."""
    with Client(prefix=without_call("mount", errno.EPERM)) as client:
        found = client.capabilities["namespaces"]
        assert (found["works"], found["errno"]) == (False, errno.EPERM)
        assert found["hint"]
        assert client.run(["/bin/echo", "ok"], use=["namespaces", "cgroup"]).out == "ok\n"


def test_the_list_of_security_modules_decides_instead_of_a_try() -> None:
    """nolabs-ai/nono #416: the file says that there is no Landlock, and it works."""
    require("root", os.geteuid() == 0, "only root can hide a file")
    with Client() as client:
        works = client.capabilities["landlock"]["works"]
    require("landlock", works, "no Landlock here")
    script = "mount -t tmpfs none /sys/kernel && mkdir -p /sys/kernel/security && " \
        'echo capability > /sys/kernel/security/lsm; exec "$@"'  # fmt: skip
    prefix = ("unshare", "-m", "sh", "-c", script, "sh")
    done = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    require("unshare", done.returncode == 0, "unshare -m does not work here")
    with Client(prefix=prefix) as client:
        assert client.capabilities["landlock"]["works"] is True


async def test_a_kernel_without_landlock_ends_in_a_panic_instead_of_a_diagnosis(
    tmp_path: Path,
) -> None:
    """openai/codex #1039, #6828, #35547, #9292, phylum-dev/birdcage #31: ``raw doctor`` says it."""
    py_config(tmp_path, OK)
    command = [
        *without_call("landlock_create_ruleset", errno.ENOSYS),
        *raw_command("--json", "--config", str(tmp_path / "config.json"), "doctor"),
    ]
    with trio.fail_after(60):
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
        )
    report = json.loads(done.stdout)
    (check,) = [check for check in report["sandbox"] if check["name"] == "landlock"]
    assert (done.returncode, report["ok"], check["ok"]) == (7, False, False)
    assert "ENOSYS" in check["message"]
    assert "5.13" in check["hint"]
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("simulate", [("no-landlock",), ("no-seccomp",)], ids=lambda s: s[0])
async def test_the_tool_runs_unconfined_with_a_warning_where_confinement_is_missing(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """openai/codex #9959: it does not run at all, and the error names what to do."""
    body = "open('ran', 'w').write('ran')\n" + OK
    async with python_tool(tmp_path, body, simulate) as opened:
        result = await opened.call()
        assert (result.code, result.is_error) == ("sandbox_unavailable", True)
        assert simulate[0].removeprefix("no-") in result.text.lower()
        assert list(opened.work.iterdir()) == []


CALLS = {
    "close_range": (436, 1000, 1001, 0),
    "faccessat2": (439, -100, b"/", 0, 0),
    "clone3": (435, 0, 0),
}


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_filter_that_says_forbidden_breaks_the_fallbacks_of_libraries(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """moby/moby #42680, #43595, lxqt-panel #1562: new calls work or do not exist."""
    body = (
        "import ctypes, errno, os, subprocess\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "said = {}\n"
        f"for name, call in {CALLS!r}.items():\n"
        "    failed = libc.syscall(*call) < 0\n"
        "    said[name] = errno.errorcode[ctypes.get_errno()] if failed else 'ok'\n"
        "done = subprocess.run(['/bin/sh', '-c', 'echo hi'], capture_output=True, close_fds=True)\n"
        "said['ran'] = done.stdout.decode()\n"
        "return {'content': [{'type': 'json', 'value': said}]}"
    )
    async with python_tool(tmp_path, body, simulate, **PROCESSES) as opened:
        said = await opened.value()
    assert said.pop("ran") == "hi\n"
    assert said.pop("clone3") == "ENOSYS"
    assert set(said.values()) <= {"ok", "ENOSYS"}


@pytest.mark.parametrize("simulate", TIERS)
async def test_programs_on_libuv_are_killed_for_trying_io_uring(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """libuv #4010, stacklok/go-microvm #76, uvloop #752: it is refused, and they go on without."""
    require_node()
    body = (
        "const env = { ...process.env, UV_USE_IO_URING: '1' };\n"
        "const code = `require('fs').promises.readFile(process.execPath)"
        ".then((b) => console.log(b.length > 0))`;\n"
        "const done = cp.spawnSync(process.execPath, ['-e', code], { env, encoding: 'utf8' });\n"
        "return { content: [{ type: 'json', value: [done.stdout, done.status, done.signal] }] };"
    )
    before = "import cp from 'node:child_process';"
    async with node_tool(tmp_path, body, simulate, before=before, **PROCESSES) as opened:
        assert await opened.value() == ["true\n", 0, None]
