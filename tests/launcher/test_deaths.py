"""Deaths of those above: whatever ends, nothing of a worker's tree survives, nothing leaks."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launcher.box import SIMULATE, Box
from tests.launcher.client import Client, Refused
from tests.launcher.test_processes import DOUBLE_FORK, alive, output, wait_text


def until(condition: Callable[[], bool]) -> None:
    """Poll a condition about other processes; fails after five seconds."""
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "condition did not come true"
        select.select([], [], [], 0.01)


def own_launcher(box: Box) -> Box:
    """A launcher of this test alone, like the box's, that may be killed."""
    user = None if box.uid == os.geteuid() else box.uid
    python = box.client.process.args[0]  # type: ignore[index]
    client = Client(user=user, simulate=SIMULATE[box.tier], python=str(python))
    return Box(box.tier, client, box.base, box.uid)


def start_tree(box: Box, marker: str, fd: int) -> int:
    """Start a worker with a daemon; return its process id."""
    tail = f"# {marker}\nwhile True: time.sleep(999)"
    child = box.spawn(DOUBLE_FORK + tail, processes=True, fds={1: fd})
    return int(child["pid"])


def test_supervisor_end_kills_every_tree_and_removes_scratch(box: Box) -> None:
    """A07: end of file on the control socket, with a daemon and a stopped worker."""
    marker = f"raw-eof-{os.getpid()}"
    mine = own_launcher(box)
    root = mine.client.scratch_root
    with output() as (read_end, write_end):
        start_tree(mine, marker, write_end)
        wait_text(read_end, b"ready")
        stopped = mine.spawn(
            f"import os # {marker}\nos.write(1,b'up')\nos.kill(os.getpid(), 19)",
            fds={1: write_end},
        )
        wait_text(read_end, b"up")
        assert stopped["pid"] > 0
        assert alive(marker)
        mine.client.sock.close()
        assert mine.client.process.wait(timeout=5) == 0
        assert alive(marker) == []
        assert os.listdir(root) == []
    mine.client.close()


def test_launcher_killed_takes_every_worker_with_it(box: Box) -> None:
    """Launcher SIGKILLed: death signal, end of file at the stubs, end of the namespace."""
    marker = f"raw-launcher-kill-{os.getpid()}"
    mine = own_launcher(box)
    with output() as (read_end, write_end):
        start_tree(mine, marker, write_end)
        wait_text(read_end, b"ready")
        mine.spawn(
            f"import os,time # {marker}\nos.write(1,b'up')\ntime.sleep(999)", fds={1: write_end}
        )
        wait_text(read_end, b"up")
        mine.client.process.kill()
        mine.client.process.wait()
        until(lambda: alive(marker) == [])
    mine.client.close()


def test_worker_cannot_escape_the_death_of_the_launcher(box: Box) -> None:
    """P19: clearing the death signal is refused, so the launcher's death still kills."""
    marker = f"raw-pdeathsig-{os.getpid()}"
    mine = own_launcher(box)
    with output() as (read_end, write_end):
        mine.spawn(
            "import ctypes,os,time\n"
            f"r=ctypes.CDLL(None).prctl(1, 0) # {marker}\n"
            "os.write(1, b'refused' if r < 0 else b'cleared')\ntime.sleep(999)",
            fds={1: write_end},
        )
        wait_text(read_end, b"refused")
        mine.client.process.kill()
        mine.client.process.wait()
        until(lambda: alive(marker) == [])
    mine.client.close()


def test_stub_killed_from_outside_loses_no_orphan(box: Box) -> None:
    """The launcher adopts and kills what a dead stub owned, then reports the end."""
    marker = f"raw-stub-{os.getpid()}"
    with output() as (read_end, write_end):
        child = box.spawn(
            DOUBLE_FORK + f"# {marker}\nwhile True: time.sleep(999)",
            processes=True,
            fds={1: write_end},
        )
        wait_text(read_end, b"ready")
        with open(f"/proc/{child['pid']}/stat") as stat:
            stub = int(stat.read().rpartition(")")[2].split()[1])
        os.kill(stub, signal.SIGKILL)
        exited = box.client.wait("exited", child["id"])
    assert exited["signal"] == signal.SIGKILL
    assert alive(marker) == []


def test_orderly_end_on_sigterm_and_none_on_sigint_or_sighup(box: Box) -> None:
    """A terminal's signals are not for the launcher; SIGTERM is."""
    marker = f"raw-term-{os.getpid()}"
    mine = own_launcher(box)
    with output() as (read_end, write_end):
        start_tree(mine, marker, write_end)
        wait_text(read_end, b"ready")
        mine.client.process.send_signal(signal.SIGINT)
        mine.client.process.send_signal(signal.SIGHUP)
        assert mine.run(["/bin/echo", "still"]).out == "still\n"
        mine.client.process.send_signal(signal.SIGTERM)
        assert mine.client.process.wait(timeout=5) == 0
        assert alive(marker) == []
    mine.client.close()


@pytest.mark.slow
def test_hundred_spawns_leave_no_descriptor_child_group_mount_or_file(box: Box) -> None:
    """Leak check: what the launcher holds after many spawns equals what it held before."""

    def holdings() -> tuple[int, int, list[str], str, int]:
        pid = box.client.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as listing:
            children = len(listing.read().split())
        groups: list[str] = []
        path = box.client.capabilities["cgroup"]["path"]
        if path is not None:
            groups = [entry.name for entry in Path(path).iterdir() if entry.is_dir()]
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        files = len(os.listdir(f"/proc/{pid}/fd"))
        return files, children, groups, mounts, len(os.listdir(box.client.scratch_root))

    box.run(["/bin/true"])
    before = holdings()
    for index in range(25):
        box.run(["/bin/true"], processes=bool(index % 2))
        with pytest.raises(Refused):
            box.run(["/absent/program"])
        with pytest.raises(Refused):
            box.run(["/bin/true"], cwd="/absent")
        child = box.spawn("import time; time.sleep(999)")
        box.client.send({"op": "kill", "id": child["id"]})
        box.client.wait("exited", child["id"])
    assert holdings() == before


@pytest.mark.parametrize("box", ["cgroup"], indirect=True)
def test_group_of_a_killed_launcher_is_removed_by_the_next(box: Box) -> None:
    """Stale groups, recognised by process id and start time."""
    mine = own_launcher(box)
    path = Path(mine.client.capabilities["cgroup"]["path"])
    mine.spawn("import time; time.sleep(999)")
    assert path.is_dir()
    mine.client.process.kill()
    mine.client.process.wait()
    assert path.is_dir()
    mine.client.close()
    own_launcher(box).client.close()
    assert not path.exists()
