"""Limits: memory, files, scratch, descriptors, processes; each with what still works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launcher.box import Box
from workers.launcher.sessions import MOST_SESSIONS


def test_memory_bomb_ends_in_an_error_the_program_can_see(box: Box) -> None:
    """M03: RLIMIT_DATA; half of the limit can be used."""
    ended = box.python(
        "x=bytearray(64<<20); x[::4096]=b'1'*len(x[::4096]); del x\n"
        "try:\n    y=[bytearray(10**7) for _ in iter(int, 1)]\n"
        "except MemoryError: y=None; print('MemoryError')",
        rlimits={"data": 160 << 20, "nofile": 256, "core": 0},
    )
    assert ended.out == "MemoryError\n", ended


def test_memory_outside_resource_limits_is_killed_with_evidence_in_the_cgroup_tier(
    box: Box,
) -> None:
    """M02: shared anonymous memory; the verdict names its source."""
    ended = box.python(
        "import mmap\nm=mmap.mmap(-1, 128<<20)\nfor i in range(0, 128<<20, 4096): m[i]=1\n",
        memory_bytes=48 << 20 if box.tier == "cgroup" else 0,
        scratch_bytes=1 << 20,
    )
    if box.tier != "cgroup":
        assert "Cannot allocate memory" in ended.err, ended
        assert ended.exited["oom"] is None
        return
    oom = ended.exited["oom"]
    assert (ended.exited["signal"], oom["source"], oom["limit_bytes"]) == (9, "cgroup", 49 << 20)
    assert oom["oom_kills"] >= 1
    again = box.python("print('fine')")
    assert again.exited["oom"] is None


def test_one_file_is_capped(box: Box) -> None:
    """RLIMIT_FSIZE, for every file a worker can write."""
    result = box.value(
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "f=open('big','wb')\n"
        "print(json.dumps([attempt(f.write, b'x'*(1<<20)), attempt(f.write, b'x'*(2<<20))]))\n"
        "os._exit(0) if sys.stdout.flush() is None else None",
        rlimits={"data": 256 << 20, "fsize": 2 << 20, "nofile": 64, "core": 0},
    )
    assert result == ["ok", "EFBIG"]
    assert os.stat(box.work / "big").st_size <= 2 << 20


def test_scratch_quota_stops_a_writer(box: Box) -> None:
    """F13: by the file system in namespaces, by the launcher's watch in the baseline."""
    ended = box.python(
        "import time\n"
        "try:\n"
        "    for i in range(64):\n"
        "        with open(os.environ['HOME'] + f'/{i}', 'wb') as f: f.write(b'x' * (1 << 20))\n"
        "except OSError as e: print(errno.errorcode[e.errno]); sys.exit(0)\n"
        "time.sleep(60)",
        scratch_bytes=4 << 20,
    )
    if box.private:
        assert ended.out == "ENOSPC\n", ended
        assert ended.exited["limit"] is None
    else:
        limit = ended.exited["limit"]
        assert (limit["name"], limit["limit"]) == ("scratch_bytes", 4 << 20)
        assert limit["used"] > 4 << 20
    assert os.listdir(box.client.scratch_root) == []


@pytest.mark.parametrize("box", ["baseline"], indirect=True)
def test_scratch_bytes_hidden_behind_a_locked_folder_still_count(box: Box) -> None:
    """F13: mode 000 hides nothing from the watch; in the other tiers the file system counts."""
    ended = box.python(
        "import time\n"
        "d=os.environ['HOME']+'/d'; os.mkdir(d)\n"
        "f=open(d+'/f','wb'); os.chmod(d, 0)\n"
        "f.write(b'x'*(8<<20)); f.flush()\n"
        "time.sleep(60)",
        scratch_bytes=4 << 20,
    )
    assert ended.exited["limit"]["name"] == "scratch_bytes", ended


def test_descriptors_are_capped(box: Box) -> None:
    """M05: pipes and sockets cost kernel memory; the count stops them."""
    result = box.value(
        "keep=[]\n"
        "def more():\n"
        "    while True: keep.extend(os.pipe())\n"
        "print(json.dumps([attempt(more), len(keep)]))",
        rlimits={"data": 256 << 20, "nofile": 64, "core": 0},
    )
    assert result[0] == "EMFILE"
    assert 40 <= result[1] <= 64


def test_number_of_processes_is_capped(box: Box) -> None:
    """P02: by the kernel where it can, by the launcher's watch elsewhere."""
    ended = box.python(
        "import time\n"
        "n=0\n"
        "try:\n"
        "    for n in range(100):\n"
        "        if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "except OSError as e: print(errno.errorcode[e.errno]); sys.stdout.flush(); os._exit(0)\n"
        "time.sleep(60)",
        processes=True,
        pids_max=20,
    )
    by_kernel = box.tier == "cgroup" or box.uid != 0
    if by_kernel:
        assert ended.out == "EAGAIN\n", ended
    else:
        assert ended.exited["limit"]["name"] == "pids_max"


def _sessions_are_rivals(box: Box) -> bool:
    """Whether the kernel gives each session as much of a processor as the launcher's."""
    try:
        setting = Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip()
    except OSError:
        return False
    return setting == "1" and box.uid != 0 and box.tier != "cgroup"


def test_number_of_sessions_is_capped_where_each_is_a_rival(box: Box) -> None:
    """P02: what leaves session and group must not get all of the processors."""
    result = box.value(
        "import signal\n"
        "read, write = os.pipe()\n"
        "start, begin = os.pipe()\n"
        "for _ in range(MANY):\n"
        "    if os.fork() == 0:\n"
        "        os.close(begin); os.read(start, 1)\n"
        "        os.write(write, attempt(os.setsid)[:2].encode())\n"
        "        signal.pause()\n"
        "os.close(begin)\n"  # all of them at once
        "got = b''\n"
        "while len(got) < 2 * MANY: got += os.read(read, 4096)\n"
        "print(json.dumps([got.count(b'ok'), got.count(b'EA')]))".replace("MANY", "200"),
        processes=True,
        pids_max=512,
    )
    capped = _sessions_are_rivals(box)
    enforced = box.run(["/bin/true"], processes=True).spawned["enforced"]
    assert enforced["sessions"] == (MOST_SESSIONS if capped else 0)
    assert result == ([MOST_SESSIONS, 200 - MOST_SESSIONS] if capped else [200, 0])


def test_sessions_that_ended_do_not_count(box: Box) -> None:
    """The pair of the above: as many as one likes, one after another, also from a shell."""
    result = box.value(
        "import subprocess\n"
        "def one():\n"
        "    subprocess.run(['/bin/true'], start_new_session=True, check=True)\n"
        "seen = {attempt(one) for _ in range(50)}\n"
        "seen.add(subprocess.run(['setsid', '-w', 'echo', 'ok'], capture_output=True,\n"
        "                        text=True, env={'PATH': '/usr/bin:/bin'}).stdout.strip())\n"
        "print(json.dumps(sorted(seen)))",
        processes=True,
    )
    assert result == ["ok"]


BELOW_A_LISTENER = """
import os, socket
from workers.launcher import bpf, caps, child, seccomp
from workers.launcher.syscall_table import AUDIT_ARCH
from workers.launcher.syscalls import ARCH

plan = seccomp.FilterPlan(
    processes=True, initial_exec=True, network="none", unix_sockets=False, private_ipc=False,
    shared_memory_capped=False, read_only_outside=False, own_pid=os.getpid(),
)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
caps.set_no_new_privs()
seccomp.install(bpf.Program(AUDIT_ARCH[ARCH]).finish(), listen=True)
print(child._bound_sessions(plan, theirs, 16))
seccomp.install(seccomp.build_filter(plan))
os.setsid()
print(os.getsid(0) == os.getpid())
"""


def test_below_another_listener_sessions_are_not_bounded_and_that_is_told() -> None:
    """The kernel has one for a process; some container runtimes take it."""
    done = subprocess.run(
        [sys.executable, "-c", BELOW_A_LISTENER],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


BOMBS = {
    "a shell's own": "b() { b | b & }; b; sleep 60",
    "one that leaves its group": 'setsid sh -c "$B" & setsid sh -c "$B" &',
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_fork_bomb_is_ended_and_the_launcher_still_answers(box: Box, kind: str) -> None:
    """P02: also where only the launcher counts, which must not wait in the bomb's queue."""
    spawned = box.client.spawn(
        ["/bin/sh", "-c", BOMBS[kind]],
        env={"B": BOMBS[kind], "PATH": "/usr/bin:/bin"},
        **box.options({"processes": True, "pids_max": 64}),
    )
    ident = spawned["id"]
    killed = False
    while True:
        box.client.send({"op": "usage", "id": ident})
        message, _ = box.client.wait_fds(("usage", "exited"), ident)
        if message["op"] == "exited":
            box.client.wait("usage", ident)
            break
        if message["processes"] >= 32 and not killed:
            killed = True
            box.client.send({"op": "kill", "id": ident})
    assert box.client.run(["/bin/echo", "alive"]).out == "alive\n"


def test_stack_and_cpu_limits_are_applied_when_asked(box: Box) -> None:
    """Optional limits: each is set soft and hard, so a worker cannot raise it."""
    result = box.value(
        "import resource\n"
        "print(json.dumps([resource.getrlimit(n) for n in"
        " (resource.RLIMIT_STACK, resource.RLIMIT_CPU, resource.RLIMIT_MEMLOCK)]))",
        rlimits={"data": 256 << 20, "nofile": 64, "core": 0, "stack": 1 << 20, "cpu": 7},
    )
    assert result == [[1 << 20, 1 << 20], [7, 7], [0, 0]]


def test_usage_reports_what_a_tree_uses(box: Box) -> None:
    """Fields of ``usage``: resident bytes, processes, scratch."""
    read_end, write_end = os.pipe()
    try:
        child = box.spawn(
            "import os,time\n"
            "x=bytearray(32<<20); x[::4096]=b'1'*len(x[::4096])\n"
            "open(os.environ['HOME']+'/f','wb').write(b'x'*300000)\n"
            "os.fork() or time.sleep(999)\n"
            "os.write(1,b'r'); time.sleep(999)",
            processes=True,
            fds={1: write_end},
        )
        assert os.read(read_end, 1) == b"r"
        box.client.send({"op": "usage", "id": child["id"]})
        usage = box.client.wait("usage", child["id"])
        box.client.send({"op": "kill", "id": child["id"]})
        box.client.wait("exited", child["id"])
    finally:
        os.close(read_end)
        os.close(write_end)
    assert usage["rss_bytes"] > 32 << 20
    assert usage["processes"] == 2
    assert usage["scratch_bytes"] >= 300_000
    assert (usage["memory_peak_bytes"] is not None) is (box.tier == "cgroup")
