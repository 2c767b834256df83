"""What users reported about death signals, PID 1, zombies and SIGTERM.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
import trio

from requires import require
from tests.launcher.client import Client
from tests.reported.support import (
    TIERS,
    host_command,
    python_tool,
    raw_command,
    shell,
    until,
)
from toolbox import py_config

pytestmark = pytest.mark.slow

SIMULATE = [("no-userns", "no-cgroup"), ()]


def _require_pid_namespaces() -> None:
    done = subprocess.run(["unshare", "-pf", "--mount-proc", "true"], check=False)
    require("unshare", done.returncode == 0, "unshare -pf --mount-proc does not work here")


@pytest.mark.parametrize("simulate", TIERS)
async def test_the_death_signal_is_tied_to_a_thread_and_kills_at_random(
    tmp_path: Path, simulate: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """containers/bubblewrap #692: trio's threads end when idle; the workers live on."""
    monkeypatch.setattr("trio._core._thread_cache.IDLE_TIMEOUT", 0.01)
    body = "import os\nreturn {'content': [{'type': 'json', 'value': [os.getpid(), args['n']]}]}"
    known = set(threading.enumerate())
    async with python_tool(tmp_path, body, simulate) as opened:
        first = await opened.value("t", {"n": 1})
        launcher = opened.runtime.statistics().launcher_pid
        await until(lambda: set(threading.enumerate()) <= known)
        second = await opened.value("t", {"n": 2})
        assert (first[0], second) == (second[0], [second[0], 2])
        now = opened.runtime.statistics()
        assert (now.launcher_pid, now.pool.launcher_restarts) == (launcher, 0)


@pytest.mark.parametrize("simulate", SIMULATE, ids=["baseline", "best"])
async def test_the_parent_dies_before_the_child_has_its_death_signal(
    simulate: tuple[str, ...],
) -> None:
    """containers/bubblewrap #633, #700, PR #730: killed at many moments of a spawn."""
    for looks in (0, 2, 8, 24, 64):
        read_end, write_end = os.pipe()
        try:
            client = Client(simulate=simulate)
            try:
                command = ["/usr/bin/python3", "-I", "-S", "-c", "import time; time.sleep(999)"]
                client.spawn(command, fds={1: write_end}, wait=False, processes=True)
                os.close(write_end)
                write_end = -1
                for _ in range(looks):
                    psutil.Process(client.process.pid).children(recursive=True)
                client.process.kill()
                # Whoever was forked holds the pipe: its end says that none of them lives.
                with trio.fail_after(10):
                    await trio.lowlevel.wait_readable(read_end)
                assert os.read(read_end, 1) == b""
            finally:
                client.close()
        finally:
            os.close(read_end)
            if write_end >= 0:
                os.close(write_end)


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_wrapper_never_reaps_what_it_adopts_or_steals_statuses(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """kernel/kernel-images PR #351: hundreds of orphans, no zombie; exit codes are right."""
    orphans = "for i in $(seq 200); do (true &) ; done; echo up > up; exec sleep 999"
    async with shell(tmp_path, simulate) as opened:
        await opened.value("process", {"action": "start", "command": orphans})
        codes = [row["exit_code"] for n in range(4) for row in await opened.bash(f"exit {n}")]
        assert codes == [0, 1, 2, 3]
        await opened.appears("up")

        def zombies() -> list[psutil.Process]:
            return [p for p in opened.family() if _status(p) == psutil.STATUS_ZOMBIE]

        await until(lambda: zombies() == [])


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return "gone"


PID_1 = """
import os, sys, trio, raw_exec

def zombies():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = open(f"/proc/{name}/stat").read()
            except OSError:
                continue
            if text.rpartition(")")[2].split()[0] == "Z":
                found.append(text)
    return found

async def main():
    assert os.getpid() == 1
    config = raw_exec.load_config(sys.argv[1])
    async with raw_exec.open_runtime(config, cwd=sys.argv[2]) as runtime:
        for command in ("setsid sleep 999 & setsid sh -c 'sleep 999 & true'", "exit 7"):
            arguments = {"commands": [{"command": command}]}
            result = await runtime.registry.dispatch("bash", arguments)
            print(result.content[0]["value"]["commands"][0]["exit_code"])
    print(zombies(), [n for n in os.listdir("/proc") if n.isdigit()])
trio.run(main)
"""


async def test_children_stay_zombies_in_a_container_without_init(tmp_path: Path) -> None:
    """containers/bubblewrap #697: the host itself is PID 1, and nobody reaps for it."""
    _require_pid_namespaces()
    async with shell(tmp_path) as opened:
        work = opened.work
    command = host_command(PID_1, str(tmp_path / "config.json"), str(work))
    with trio.fail_after(60):
        done = await trio.run_process(
            ["unshare", "-pf", "--mount-proc", "--kill-child", *command], capture_stdout=True
        )
    assert done.stdout.decode() == "0\n7\n[] ['1']\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_pid_1_ignores_the_signal_to_end(tmp_path: Path, number: signal.Signals) -> None:
    """nodejs/docker-node #5, #323: ``raw`` as the first process of a container obeys."""
    _require_pid_namespaces()
    work = tmp_path / "work"
    work.mkdir()
    py_config(tmp_path, "import time\nopen('up', 'w').write('up')\ntime.sleep(999)")
    command = raw_command("--config", str(tmp_path / "config.json"), "tools", "call", "t")
    process = subprocess.Popen(  # noqa: ASYNC220
        ["unshare", "-pf", "--mount-proc", "--kill-child", *command],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with trio.fail_after(60):
            await until(lambda: (work / "up").exists())
            (first,) = psutil.Process(process.pid).children()
            assert psutil.Process(first.pid).cmdline() == command
            first.send_signal(number)
            out, err = await trio.to_thread.run_sync(process.communicate)
        assert (process.returncode, out) == (130, "")
        assert err == "error: interrupted; nothing is left running\n"
    finally:
        process.kill()
        process.wait()
