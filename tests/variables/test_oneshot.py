"""One-shot programs: found without running, bounded, and gone with all they started."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from raw_exec.pool import Launcher
from raw_exec.pool.oneshot import ProgramOutcome, ProgramUnavailable, find_program, run_program
from requires import require
from tests.variables.support import PYTHON, launched
from toolbox import plan_of

TIERS = [pytest.param((), id="best"), pytest.param(("no-userns", "no-cgroup"), id="baseline")]


async def run(
    launcher: Launcher, root: Path, source: str, *, processes: bool = False, **options: Any
) -> ProgramOutcome:
    program = find_program(PYTHON, ["-I", "-S", "-c", source], directory=root)
    bounds = {"timeout_ms": 20_000, "max_output_bytes": 65536, **options}
    with trio.fail_after(30):
        return await run_program(
            launcher,
            argv=program.argv,
            env=program.env,
            cwd=str(root),
            plan=plan_of(root, write=(), processes=processes),
            files=program.files,
            **bounds,
        )


def ended(outcome: ProgramOutcome) -> tuple[int | None, int | None, bool, bool]:
    return (outcome.code, outcome.signal, outcome.timed_out, outcome.overflowed)


async def test_input_reaches_the_program_and_both_outputs_come_back(tmp_path: Path) -> None:
    """Our choice: bytes in, bytes and status out, nothing interpreted."""
    source = (
        "import sys; d = sys.stdin.read(); print(d * 2, end=''); sys.stderr.write('e'); sys.exit(3)"
    )
    async with launched() as launcher:
        outcome = await run(launcher, tmp_path, source, stdin=b"ab")
    assert (outcome.stdout, outcome.stderr) == (b"abab", b"e")
    assert ended(outcome) == (3, None, False, False)


async def test_the_environment_is_built_and_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inherited variable is the easiest way to leak a secret."""
    monkeypatch.setenv("A_SECRET", "x")
    source = "import os, json; print(json.dumps(sorted(os.environ)))"
    async with launched() as launcher:
        outcome = await run(launcher, tmp_path, source)
    known = {"HOME", "LANG", "PATH", "TEMP", "TMP", "TMPDIR", "LC_CTYPE"}
    assert set(json.loads(outcome.stdout)) <= known


async def test_a_program_that_ignores_its_input_is_not_a_failure(tmp_path: Path) -> None:
    """A closed pipe on our side is the program's right; more than a pipe holds is offered."""
    async with launched() as launcher:
        outcome = await run(launcher, tmp_path, "print(1)", stdin=b"x" * 1_000_000)
    assert (outcome.stdout, ended(outcome)) == (b"1\n", (0, None, False, False))


@pytest.mark.parametrize(("size", "over"), [(1000, False), (1001, True)])
async def test_the_byte_bound_is_exact_over_both_outputs_together(
    tmp_path: Path, size: int, over: bool
) -> None:
    """Corpus R03 and R09: the cap itself is allowed, one more byte is not."""
    source = f"import os; os.write(2, b'e' * 400); os.write(1, b'o' * {size - 400})"
    async with launched() as launcher:
        outcome = await run(launcher, tmp_path, source, max_output_bytes=1000)
    assert outcome.overflowed is over
    assert len(outcome.stdout) + len(outcome.stderr) == 1000


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_program_that_prints_for_ever_is_ended_at_the_bound(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Corpus R02."""
    async with launched(simulate) as launcher:
        outcome = await run(launcher, tmp_path, "while True: print('y' * 1000)")
        assert launcher.live_children == 0
    assert (outcome.overflowed, outcome.timed_out) == (True, False)
    assert len(outcome.stdout) == 65536


@pytest.mark.parametrize("simulate", TIERS)
async def test_at_its_time_limit_a_program_is_told_to_end_before_it_is_killed(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Contract: TERM, then KILL; one that minds the first can still tidy up."""
    source = (
        "import signal, time\n"
        "def end(*_): print('told', flush=True); raise SystemExit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', flush=True)\n"
        "time.sleep(999)\n"
    )
    async with launched(simulate) as launcher:
        outcome = await run(launcher, tmp_path, source, timeout_ms=2000, grace_ms=15_000)
    assert outcome.stdout == b"up\ntold\n"
    assert ended(outcome) == (0, None, True, False)


@pytest.mark.parametrize("simulate", TIERS)
async def test_the_whole_process_group_is_told(tmp_path: Path, simulate: tuple[str, ...]) -> None:
    """Contract: the process group is ended with TERM; needs Linux 6.9."""
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    require("linux-6.9", release >= (6, 9), "the kernel can't signal a group through a pidfd")
    source = (
        "import os, signal, time\n"
        "def end(*_): os.write(1, name); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "child = os.fork()\n"
        "name = b'parent' if child else b'child '\n"
        "if child:\n"
        "    def end_after(*_): os.wait(); end()\n"
        "    signal.signal(signal.SIGTERM, end_after)\n"
        "time.sleep(999)\n"
    )
    async with launched(simulate) as launcher:
        outcome = await run(
            launcher, tmp_path, source, processes=True, timeout_ms=2000, grace_ms=15_000
        )
    assert (outcome.stdout, ended(outcome)) == (b"child parent", (0, None, True, False))


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_program_that_ignores_the_signal_is_killed(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Corpus R01."""
    source = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(999)"
    async with launched(simulate) as launcher:
        outcome = await run(launcher, tmp_path, source, timeout_ms=1000, grace_ms=50)
        assert launcher.live_children == 0
    assert ended(outcome) == (None, 9, True, False)


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_detached_grandchild_that_holds_the_pipes_does_not_outlive_the_program(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Corpus R04: the end is the exit notice and never the end of a pipe."""
    source = (
        "import os, time\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.write(w, b'x'); time.sleep(999)\n"
        "os.read(r, 1); print('ok')\n"
    )
    async with launched(simulate) as launcher:
        await run(launcher, tmp_path, "pass")
        before = _descendants()
        outcome = await run(launcher, tmp_path, source, processes=True)
        assert _descendants() == before
    assert (outcome.stdout, ended(outcome)) == (b"ok\n", (0, None, False, False))


def _descendants() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def test_a_cancelled_run_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    """Cancellation ends and reaps the program before it goes on."""
    source = "import time; print('up', flush=True); time.sleep(999)"
    async with launched() as launcher:
        await run(launcher, tmp_path, "pass")
        fds = len(os.listdir("/proc/self/fd"))
        for seconds in (0.0, 0.05, 1.0):
            with trio.move_on_after(seconds) as scope:
                await run(launcher, tmp_path, source, grace_ms=50)
            assert scope.cancelled_caught
            assert launcher.live_children == 0
        assert len(os.listdir("/proc/self/fd")) == fds


async def test_many_short_programs_at_once_are_each_told_apart(tmp_path: Path) -> None:
    """A program that ends before its start was noticed has an outcome all the same."""
    outcomes: dict[int, tuple[Any, ...]] = {}

    async def one(number: int) -> None:
        outcome = await run(launcher, tmp_path, f"print({number}); raise SystemExit({number})")
        outcomes[number] = (outcome.stdout, outcome.code)

    async with launched() as launcher, trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(one, number)
    assert outcomes == {n: (f"{n}\n".encode(), n) for n in range(12)}


async def test_a_program_can_read_its_grant_and_nothing_else(tmp_path: Path) -> None:
    """A pair: the granted folder is readable, its neighbour is not, nothing is writable."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "in").write_text("granted")
    (tmp_path / "out").write_text("not granted")
    source = (
        "print(open('in').read())\n"
        "for path, mode in (('../out', 'r'), ('in', 'a'), ('/etc/shadow', 'r')):\n"
        "    try: open(path, mode); print(path)\n"
        "    except OSError: print('no')\n"
        "try:\n"
        "    import os; os.fork(); print('forked')\n"
        "except OSError: print('no')\n"
        "try:\n"
        "    import _socket; _socket.socket(); print('socket')\n"
        "except (OSError, ImportError): print('no')\n"
    )
    async with launched() as launcher:
        outcome = await run(launcher, tmp_path / "mine", source)
    assert outcome.stdout == b"granted\nno\nno\nno\nno\nno\n", outcome.stderr


# ---------------------------------------------------------------- finding


def script(root: Path, name: str, first_line: str, *, mode: int = 0o755) -> Path:
    path = root / name
    path.write_text(f"{first_line}\necho $0\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-program-x", "program_missing"),
        ("./missing", "program_missing"),
        ("./plain", "program_not_executable"),
        ("./folder", "program_not_executable"),
        ("./lost", "interpreter_missing"),
        ("./lost-env", "interpreter_missing"),
        ("./nested", "interpreter_missing"),
    ],
)
def test_what_can_not_be_started_is_told_apart(tmp_path: Path, command: str, code: str) -> None:
    """Corpus R10."""
    script(tmp_path, "plain", "#!/bin/sh", mode=0o644)
    script(tmp_path, "lost", "#!/no/such/interpreter")
    script(tmp_path, "lost-env", "#!/usr/bin/env no-such-program-x")
    script(tmp_path, "nested", f"#!{script(tmp_path, 'inner', '#!/bin/sh')}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ProgramUnavailable) as caught:
        find_program(command, directory=tmp_path)
    assert caught.value.code == code


async def test_a_file_that_the_kernel_will_not_execute_is_a_refusal(tmp_path: Path) -> None:
    """Corpus R10: no shell is tried instead."""
    script(tmp_path, "odd", "echo not a program")
    program = find_program("./odd", directory=tmp_path)
    async with launched() as launcher:
        with pytest.raises(ProgramUnavailable) as caught:
            await run_program(
                launcher,
                argv=program.argv,
                env=program.env,
                cwd=str(tmp_path),
                plan=plan_of(tmp_path, write=()),
                files=program.files,
                timeout_ms=5000,
                max_output_bytes=100,
            )
        assert launcher.live_children == 0
    assert caught.value.code == "program_refused"


def test_a_script_is_started_through_its_interpreter(tmp_path: Path) -> None:
    """So that only one program has to be executable; ``env`` is looked through."""
    plain = script(tmp_path, "plain", "#!/bin/sh -e")
    looked_up = script(tmp_path, "looked-up", "#!/usr/bin/env sh")
    environ = {"PATH": "relative:/usr/bin:/bin"}
    found = [
        find_program(f"./{path.name}", ["a b", ";"], directory=tmp_path, environ=environ).argv
        for path in (plain, looked_up)
    ]
    sh = "/usr/bin/sh" if Path("/usr/bin/sh").exists() else "/bin/sh"
    assert found == [
        ("/bin/sh", "-e", str(plain), "a b", ";"),
        (sh, str(looked_up), "a b", ";"),
    ]


def test_a_script_called_python_on_the_path_is_passed_over(tmp_path: Path) -> None:
    """Version managers put them there; a sandbox grants one executable."""
    script(tmp_path, "python3", "#!/bin/sh")
    real = tmp_path / "real"
    real.mkdir()
    (real / "python3").symlink_to(PYTHON)
    environ = {"PATH": f"{tmp_path}:{real}"}
    found = find_program("python3", directory=tmp_path, environ=environ)
    assert found.argv == (str(real / "python3"),)
