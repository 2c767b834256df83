"""Processes and signals: what may start, what a worker can hit, and that a kill is total."""

from __future__ import annotations

import os
import select
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from requires import require, require_node
from tests.launcher.box import Box
from tests.launcher.client import SYSTEM

DOUBLE_FORK = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.write(1, b'ready\\n')\n"
    "        time.sleep(999)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
)


def alive(marker: str) -> list[int]:
    """Processes of this host whose command line has ``marker``."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as line:
                    if marker.encode() in line.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


@contextmanager
def output() -> Iterator[tuple[int, int]]:
    """A pipe whose ends are closed afterwards."""
    read_end, write_end = os.pipe()
    try:
        yield read_end, write_end
    finally:
        os.close(read_end)
        os.close(write_end)


def wait_text(fd: int, text: bytes) -> None:
    """Read until ``text`` came; fails after ten seconds of silence."""
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([fd], [], [], 10)
        assert ready, seen
        seen += os.read(fd, 1000)


def test_new_processes_fail_cleanly_and_threads_work_without_the_grant(box: Box) -> None:
    """P01, P02: fork, vfork, clone3 and spawn are refused; threads are not processes."""
    result = box.value(
        "import subprocess, threading\n"
        "r=[attempt(os.fork), attempt(subprocess.run, ['/bin/true']),"
        " attempt(os.posix_spawn, '/bin/true', ['true'], {}), raw(435, 0, 0)]\n"
        "t=threading.Thread(target=lambda: r.append('thread')); t.start(); t.join()\n"
        "print(json.dumps(r))"
    )
    assert result == ["EPERM", "EPERM", "EPERM", "ENOSYS", "thread"]


def test_processes_run_with_the_grant_and_stay_confined(box: Box) -> None:
    """The positive side of P01; a child is under the same rules (P14)."""
    result = box.value(
        "import subprocess\n"
        "out=subprocess.run(['/bin/sh','-c','echo hi; cat '+SECRET], capture_output=True)\n"
        "ld=subprocess.run(['/lib64/ld-linux-x86-64.so.2','/bin/cat',SECRET], capture_output=True)"
        " if os.path.exists('/lib64/ld-linux-x86-64.so.2') else out\n"
        "print(json.dumps([out.stdout.decode(), out.returncode, b'T1' in ld.stdout]))",
        processes=True,
    )
    assert result == ["hi\n", 1, False]


def test_programs_outside_the_grants_cannot_be_executed(box: Box) -> None:
    """Landlock execute: only listed files; P15: nor a memory file."""
    tool = box.work / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    code = (
        "def mem():\n"
        "    fd=os.memfd_create('x'); os.write(fd, open('/bin/true','rb').read())\n"
        "    os.execve(fd, ['x'], {})\n"
        f"print(json.dumps([attempt(os.execv, {str(tool)!r}, ['t']), attempt(mem)]))"
    )
    result = box.value(code)
    assert result[0] == "EACCES"
    assert result[1] in ("ENOSYS", "EPERM")
    granted = box.run([str(tool)], processes=True, exec=[*SYSTEM, str(box.work)])
    assert granted.out == "ran\n", granted


def test_double_forked_daemon_is_dead_when_the_exit_is_reported(box: Box) -> None:
    """P04, P05, R04: the worker returns success, its daemon does not outlive the notice."""
    marker = f"raw-daemon-{os.getpid()}"
    ended = box.python(DOUBLE_FORK + f"# {marker}\nsys.exit(0)", processes=True)
    assert ended.exited["code"] == 0, ended
    assert ended.exited["killed_extra"] == 1
    assert alive(marker) == []


@pytest.mark.parametrize(
    "last_words",
    ["time.sleep(999)", "os.kill(os.getpid(), 19)", "signal.pause()"],
    ids=["sleeping", "stopped", "paused"],
)
def test_kill_ends_the_whole_tree_whatever_it_does(box: Box, last_words: str) -> None:
    """P04, P06, P07, P19: ignored signals, stops and a changed death signal do not help."""
    marker = f"raw-kill-{os.getpid()}"
    code = (
        "import signal, ctypes\n"
        "for n in range(1, 65):\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)\n"
        "ctypes.CDLL(None).prctl(1, 0); ctypes.CDLL(None).prctl(36, 1)\n"
        "ctypes.CDLL(None).prctl(4, 1)\n" + DOUBLE_FORK + f"# {marker}\n" + last_words
    )
    with output() as (read_end, write_end):
        child = box.spawn(code, processes=True, fds={1: write_end})
        wait_text(read_end, b"ready")
        box.client.send({"op": "kill", "id": child["id"]})
        box.client.send({"op": "kill", "id": child["id"]})
        exited = box.client.wait("exited", child["id"])
    assert (exited["code"], exited["signal"]) == (None, signal.SIGKILL)
    assert alive(marker) == []


def test_fork_bomb_is_ended_by_a_kill_or_by_the_limit(box: Box) -> None:
    """P02: with processes granted the count is capped, and the kill catches all."""
    marker = f"raw-bomb-{os.getpid()}"
    code = (
        f"import os # {marker}\n"
        "os.write(1, b'ready')\n"
        "while True:\n"
        "    try: os.fork()\n"
        "    except OSError: pass\n"
    )
    with output() as (read_end, write_end):
        child = box.spawn(code, processes=True, pids_max=40, fds={1: write_end})
        wait_text(read_end, b"ready")
        box.client.send({"op": "kill", "id": child["id"]})
        exited = box.client.wait("exited", child["id"])
    assert exited["signal"] == signal.SIGKILL
    assert alive(marker) == []


def test_signals_do_not_reach_the_launcher_a_neighbour_or_everyone(box: Box) -> None:
    """P11, P12: parent, group, all, and a guessed number; one's own process still can."""
    with output() as (read_end, write_end):
        neighbour = box.spawn("import os,time; os.write(1,b'up'); time.sleep(999)",
                              fds={1: write_end})  # fmt: skip
        wait_text(read_end, b"up")
        targets = f"(os.getppid(), {box.client.process.pid}, {neighbour['pid']}, -1)"
        for processes in (False, True):
            code = (
                "import signal\n"
                "signal.signal(signal.SIGUSR1, lambda *a: None)\n"
                f"r=[attempt(os.kill, p, 15) for p in {targets} if p not in (0, 1, 2)]\n"
                "r.append(attempt(os.kill, os.getpid(), signal.SIGUSR1))\nprint(json.dumps(r))"
            )
            if processes and box.private:
                # In a PID namespace of its own "everyone" is its own tree.
                code = code.replace(", -1)", ")")
            result = box.value(code, processes=processes)
            assert result.pop() == "ok"
            assert "ok" not in result
        box.client.send({"op": "kill", "id": neighbour["id"]})
        assert box.client.wait("exited", neighbour["id"])["signal"] == signal.SIGKILL
    assert box.client.process.poll() is None


def test_neighbours_limits_and_priorities_cannot_be_changed(box: Box) -> None:
    """Our finds beside P17: prlimit, setpriority and F_SETOWN work on same-uid strangers."""
    with output() as (read_end, write_end):
        neighbour = box.spawn("import os,time; os.write(1,b'up'); time.sleep(999)",
                              fds={1: write_end})  # fmt: skip
        wait_text(read_end, b"up")
        pid = neighbour["pid"]
        result = box.value(
            "import resource, fcntl, socket\n"
            f"P={pid}\n"
            "r=[attempt(resource.prlimit, P, resource.RLIMIT_NOFILE, (1, 1)),"
            " attempt(os.setpriority, os.PRIO_PROCESS, P, 19),"
            " attempt(os.setpriority, os.PRIO_USER, 0, 19),"
            " attempt(os.sched_setaffinity, P, {0}),"
            " attempt(os.nice, -5)]\n"
            "a,b=socket.socketpair()\n"
            "r.append(attempt(fcntl.fcntl, a.fileno(), 8, P))\n"
            "r.append(raw(151, 3) if os.uname().machine=='x86_64' else 'EPERM')\n"
            "print(json.dumps(r))"
        )
        with open(f"/proc/{pid}/limits") as lines:
            files = next(line.split()[3] for line in lines if line.startswith("Max open files"))
        box.client.send({"op": "kill", "id": neighbour["id"]})
        box.client.wait("exited", neighbour["id"])
    assert files == "256"
    assert "ok" not in result


def test_core_files_and_privilege_are_off(box: Box) -> None:
    """P20, R10: no core, no new privileges, no capability, as root as well."""
    result = box.value(
        "import resource\n"
        "status=dict(l.split(':',1) for l in open('/proc/self/status') if ':' in l)\n"
        "print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE)[0] <= 1,"
        " status['NoNewPrivs'].strip(), status['Seccomp'].strip(),"
        " sorted({status[k].strip() for k in ('CapInh','CapPrm','CapEff','CapAmb')})]))"
    )
    assert result == [True, "1", "2", ["0000000000000000"]]


def test_exit_statuses_are_told_apart(box: Box) -> None:
    """P08, P09, K16: codes, named signals and realtime signals, without exception."""
    codes = {}
    for name, code in {
        "zero": "pass",
        "three": "os._exit(3)",
        "many": "os._exit(200)",
        "segv": "os.kill(os.getpid(), 11)",
        "abort": "os.abort()",
        "last": "os.kill(os.getpid(), 64)",
    }.items():
        exited = box.python(code).exited
        codes[name] = (exited["code"], exited["signal"], exited["core"])
    assert codes == {
        "zero": (0, None, False),
        "three": (3, None, False),
        "many": (200, None, False),
        "segv": (None, 11, False),
        "abort": (None, 6, False),
        "last": (None, 64, False),
    }


def test_node_runs_confined_and_cannot_spawn(box: Box) -> None:
    """P01, P16 for the other runtime: worker threads and crypto work, children do not."""
    from raw_exec.sandbox import node_files

    node = os.path.realpath(require_node())
    closed = [str(p) for p in Path(node).parents if not p.stat().st_mode & stat.S_IXOTH]
    require("node", not closed or box.uid == os.geteuid(), f"others can't enter {closed}")
    files = node_files(node)
    ended = box.run(
        [
            node,
            "-e",
            "const cp=require('child_process'),c=require('crypto'),wt=require('worker_threads');"
            "let r=[cp.spawnSync('/bin/true').error?.code,c.randomBytes(4).length];"
            "try{require('fs').readFileSync('/etc/passwd');r.push('read')}"
            "catch(e){r.push(e.code)}"
            "const w=new wt.Worker('require(\"worker_threads\").parentPort.postMessage(1)',"
            "{eval:true});w.on('message',m=>{r.push(m);console.log(JSON.stringify(r))});",
        ],
        env={"OPENSSL_CONF": "/nonexistent"},
        read=list(files.read),
        exec=list(files.execute),
    )
    code = "ENOENT" if box.private else "EACCES"
    assert ended.out == f'["EPERM",4,"{code}",1]\n', ended


def test_unconfined_spawn_still_loses_its_whole_tree(box: Box) -> None:
    """``sandbox: false`` keeps descriptors, environment, session and the total kill."""
    marker = f"raw-open-{os.getpid()}"
    ended = box.python(
        DOUBLE_FORK + f"# {marker}\nprint(os.path.exists(SECRET), sorted(os.environ))",
        sandbox=False,
    )
    assert ended.exited["killed_extra"] == 1, ended
    assert "'PATH'" in ended.out
    assert "True" in ended.out
    assert alive(marker) == []
