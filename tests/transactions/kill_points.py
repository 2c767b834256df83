"""Stops a commit at each of its system calls, and looks at what is left of the tree.

A program of its own, with one thread, since it forks. Arguments: a folder to work in, then what
happens at a call: ``kill`` (the process dies before it, the recovery likewise), ``once`` (it fails,
as on a full disk) or ``on`` (it fails, and every later one). It prints one JSON value: how many
points there were, how many trees were old and new, and what was wrong at which point.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from raw_exec.errors import ConfigError  # noqa: E402
from raw_exec.transactions import syscalls  # noqa: E402
from raw_exec.transactions.changes import ChangeSet  # noqa: E402
from raw_exec.transactions.commit import commit  # noqa: E402
from raw_exec.transactions.errors import CommitInterrupted, CommitRefused  # noqa: E402
from raw_exec.transactions.recover import recover  # noqa: E402
from tests.transactions.lab import Lab, Picture, now_ns, picture  # noqa: E402

KILLED = 9
CALL = """
import shutil
open('a', 'w').write('new a\\n')
os.rename('d/b', 'd/moved')
os.mkdir('fresh'); open('fresh/x', 'w').write('x\\n'); os.symlink('x', 'fresh/link')
shutil.rmtree('rebuilt'); os.mkdir('rebuilt'); open('rebuilt/new', 'w').write('n\\n')
shutil.rmtree('gone')
os.chmod('d/mode', 0o600)
os.chmod('d/kept', 0o700)
os.unlink('link'); os.symlink('d', 'link')
os.unlink('file-to-dir'); os.mkdir('file-to-dir'); open('file-to-dir/in', 'w').write('i\\n')
shutil.rmtree('dir-to-file'); open('dir-to-file', 'w').write('f\\n')
"""
FILES = (
    "a", "same", "d/b", "d/mode", "d/kept/f", "rebuilt/1", "rebuilt/sub/2", "gone/1", "gone/s/2",
    "file-to-dir", "dir-to-file/1",
)  # fmt: skip


def run_child(work: Callable[[], Any], die_at: int) -> bool:
    """Fork, and do ``work``; the child dies before its n-th system call. Whether it was done."""
    pid = os.fork()
    if pid == 0:
        left = die_at

        def fault(_name: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(KILLED)

        syscalls.fault = fault
        try:
            work()
        except BaseException as exc:
            print(f"point {die_at}: {exc!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, KILLED):
        raise AssertionError(f"point {die_at}: the child ended with {code}")
    return code == 0


class Bench:
    """A tree that is made anew for each point, and the two states that it may be in."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.lab = Lab(base / "lab")
        for path in FILES:
            self.lab.write(path, f"{path}\n")
        (self.lab.root / "link").symlink_to("a")
        self.found = self.lab.run(CALL)
        self.tree = base / "now"
        self.state = base / "state"
        self.old = picture(self.lab.root, times=True)
        self.fresh()
        self.commit()
        self.new = picture(self.tree)
        assert self.new != picture(self.lab.root)

    def fresh(self, state: str = "") -> None:
        if state != "old":
            shutil.rmtree(self.tree, ignore_errors=True)
            shutil.rmtree(self.state, ignore_errors=True)
            shutil.copytree(self.lab.root, self.tree, symlinks=True)
        # Far ahead: the tree counts as old without waiting for the clock each time.
        started = now_ns() + 3600 * 10**9
        self.found = ChangeSet(str(self.tree), self.found.upper, started, self.found.changes)

    def commit(self) -> None:
        commit([self.found], state_dir=self.state)

    def recover(self) -> None:
        report = recover(self.state)
        if report.failed or report.left:
            raise AssertionError(repr(report))

    def state_of(self) -> str:
        """Say which tree it is; the old one counts with all times."""
        left = [p.name for p in self.tree.iterdir() if p.name.startswith(".raw-commit-")]
        if self.state.exists():
            left += [p.name for p in self.state.iterdir() if p.name != "commit.lock"]
        if left:
            return f"left behind: {left}"
        if picture(self.tree, times=True) == self.old:
            return "old"
        now = picture(self.tree)
        if now == self.new:
            return "new"
        return f"not old: {difference(now, self.old)}; not new: {difference(now, self.new)}"


def difference(one: Picture, other: Picture) -> list[str]:
    paths = {*one, *other}
    return sorted(os.fsdecode(path) for path in paths if one.get(path) != other.get(path))


def kill_everywhere(bench: Bench) -> dict[str, Any]:
    """Kill the commit before each call; then also the recovery, after some of these."""
    wrong: dict[str, str] = {}
    states: list[str] = []
    state, point, done = "", 0, False
    while not done:
        point += 1
        bench.fresh(state)
        done = run_child(bench.commit, point)
        bench.recover()
        state = bench.state_of()
        states.append(state)
        if state not in ("old", "new"):
            wrong[str(point)] = state
    turn = states.index("new") + 1 if "new" in states else point
    recoveries = 0
    for killed_at in sorted({turn // 2, turn - 1, turn, (turn + point) // 2, point - 1}):
        second, ended = 0, False
        while not ended:
            second += 1
            recoveries += 1
            bench.fresh(state)
            run_child(bench.commit, killed_at)
            ended = run_child(bench.recover, second)
            bench.recover()
            state = bench.state_of()
            if state != states[killed_at - 1]:
                wrong[f"{killed_at}/{second}"] = state
    ordered = states == ["old"] * (turn - 1) + ["new"] * (point - turn + 1)
    return result(states, wrong) | {"recoveries": recoveries, "ordered": ordered}


def fail_everywhere(bench: Bench, *, on: bool) -> dict[str, Any]:
    """Let each call fail, alone or with all that follow; here nothing is killed."""
    wrong: dict[str, str] = {}
    states: list[str] = []
    state, point, met = "", 0, True
    while met:
        point += 1
        bench.fresh(state)
        count = 0

        def fault(_name: str, point: int = point) -> None:
            nonlocal count
            count += 1
            if count == point or (on and count > point):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        syscalls.fault = fault
        try:
            bench.commit()
            said = "new"
        except CommitInterrupted:
            said = "in between"
        except (CommitRefused, ConfigError):
            said = "old"
        finally:
            syscalls.fault = None
        met = count >= point
        if not on:
            state = bench.state_of()
            if state.startswith("left behind"):
                state = ""  # only removing the private folder failed
        if on or not state:
            bench.recover()
            state = bench.state_of()
        states.append(state)
        if state != said and not (said == "in between" and state in ("old", "new")):
            wrong[str(point)] = f"said {said}, is {state}"
    return result(states, wrong)


def result(states: list[str], wrong: dict[str, str]) -> dict[str, Any]:
    counts = {"old": states.count("old"), "new": states.count("new")}
    return {"points": len(states), **counts, "wrong": wrong}


def main(base: Path, mode: str) -> dict[str, Any]:
    bench = Bench(base)
    if mode == "kill":
        return kill_everywhere(bench)
    return fail_everywhere(bench, on=mode == "on")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
