"""Background jobs with real processes, without a runtime around them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from raw_exec.jobs import HostRoom, JobError, JobService, open_jobs
from raw_exec.jobs.service import MAX_FINISHED, MAX_LIVE
from raw_exec.pool import Launcher, open_launcher
from raw_exec.private_root import open_private_root
from toolbox import footprint, plan_of

TIERS = [(), ("no-userns",)]


class Jobs:
    """A service with the working directory of a test."""

    def __init__(self, service: JobService, launcher: Launcher, root: Path) -> None:
        self.service = service
        self.launcher = launcher
        self.root = root

    async def start(self, command: str, **options: Any) -> str:
        plan = options.pop("plan", plan_of(self.root, processes=True))
        job = await self.service.start(command, plan=plan, base=str(self.root), **options)
        return str(job["id"])

    async def ended(self, ident: str) -> dict[str, Any]:
        """Wait for the end of a job that ends by itself."""
        await self.service._find(ident).settled.wait()
        return self.service.status(ident)

    def text(self, ident: str) -> str:
        page, _ = self.service.output(ident, cursor=0, max_bytes=65536, max_encoded_bytes=1_000_000)
        return page.text

    async def printed(self, ident: str, is_there: Callable[[str], bool]) -> str:
        """Wait until a job has printed what a test waits for."""
        while not is_there(text := self.text(ident)):
            await trio.sleep(0.01)
        return text


@asynccontextmanager
async def jobs_in(
    root: Path, simulate: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[Jobs]:
    with open_private_root() as private, trio.fail_after(90):
        async with (
            open_launcher(scratch_parent=private, simulate=simulate) as launcher,
            open_jobs(launcher, **{"grace_ms": 5000, "room": HostRoom(), **options}) as service,
        ):
            yield Jobs(service, launcher, root)


async def sleepers(launcher: Launcher, count: int) -> list[psutil.Process]:
    """Wait until so many processes below the launcher are ``sleep``; return them."""
    while True:
        found = []
        for process in psutil.Process(launcher.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() == "sleep":
                    found.append(process)
        if len(found) >= count:
            return found
        await trio.sleep(0.01)


def outcome(job: dict[str, Any]) -> tuple[Any, ...]:
    return job["state"], job["exit_code"], job["signal"]


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_job_runs_prints_and_exits(tmp_path: Path, simulate: tuple[str, ...]) -> None:
    """Contract: standard output and error in the order written, exit code, working directory."""
    command = 'echo one; echo two >&2; echo three; pwd; cat; echo "$V"; exit 3'
    async with jobs_in(tmp_path, simulate) as jobs:
        ident = await jobs.start(command, env={"V": "value"}, label="mine")
        job = await jobs.ended(ident)
        assert outcome(job) == ("exited", 3, None)
        assert (job["label"], job["command"]) == ("mine", command)
        assert jobs.text(ident) == f"one\ntwo\nthree\n{tmp_path}\nvalue\n"
        assert jobs.launcher.live_children == 0


async def test_a_command_may_begin_with_a_dash(tmp_path: Path) -> None:
    """It is text for the shell and never an option of it."""
    async with jobs_in(tmp_path) as jobs:
        assert outcome(await jobs.ended(await jobs.start("-x"))) == ("exited", 127, None)


@pytest.mark.parametrize("simulate", TIERS)
async def test_stopping_ends_the_whole_tree_and_may_be_repeated(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Contract: TERM for whoever minds it, then nothing is left; idempotent."""
    command = (
        "trap 'echo told; exit 0' TERM; setsid sleep 999 & (setsid sleep 999 &); echo up; "
        "while :; do read -t 0.02 <> <(:); done"
    )
    async with jobs_in(tmp_path, simulate) as jobs:
        ident = await jobs.start(command)
        await jobs.printed(ident, lambda text: "up" in text)
        below = await sleepers(jobs.launcher, 2)
        first = await jobs.service.stop(ident)
        assert outcome(first) == ("stopped", 0, None)
        assert "told" in jobs.text(ident)
        assert [process for process in below if process.is_running()] == []
        assert await jobs.service.stop(ident) == first
        assert jobs.launcher.live_children == 0


async def test_a_job_that_ignores_the_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    """Contract: TERM, then KILL."""
    async with jobs_in(tmp_path, grace_ms=50) as jobs:
        ident = await jobs.start("trap '' TERM; echo up; while :; do sleep 0.02; done")
        await jobs.printed(ident, lambda text: "up" in text)
        assert outcome(await jobs.service.stop(ident)) == ("stopped", None, "SIGKILL")


async def test_two_who_stop_the_same_job_get_the_same_answer(tmp_path: Path) -> None:
    """Stopping one that is being stopped waits for its end too."""
    answers: list[dict[str, Any]] = []

    async def stop(jobs: Jobs, ident: str) -> None:
        answers.append(await jobs.service.stop(ident))

    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start("exec sleep 999")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, jobs, ident)
            nursery.start_soon(stop, jobs, ident)
    assert [outcome(answer) for answer in answers] == [("stopped", None, "SIGTERM")] * 2


async def test_its_time_limit_ends_a_job(tmp_path: Path) -> None:
    """Contract: timed_out, which is not stopped."""
    async with jobs_in(tmp_path) as jobs:
        job = await jobs.ended(await jobs.start("exec sleep 999", timeout_ms=30))
        assert (outcome(job), job["timeout_ms"]) == (("timed_out", None, "SIGTERM"), 30)


async def test_what_a_shell_leaves_running_ends_with_it(tmp_path: Path) -> None:
    """A process that keeps the pipe open holds up neither the end nor the output."""
    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start("setsid sleep 999 & echo done")
        assert outcome(await jobs.ended(ident)) == ("exited", 0, None)
        assert (jobs.text(ident), jobs.launcher.live_children) == ("done\n", 0)


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_job_is_confined_like_a_call(tmp_path: Path, simulate: tuple[str, ...]) -> None:
    """Security: cannot read or write outside of the grants; can still inside."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text("s3cret")
    command = f"cat {outside}/secret; echo x > {outside}/new; echo y > mine; cat mine"
    async with jobs_in(inside, simulate) as jobs:
        ident = await jobs.start(command)
        assert (await jobs.ended(ident))["exit_code"] == 0
        text = jobs.text(ident)
    assert "s3cret" not in text
    assert text.endswith("y\n")
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


@pytest.mark.parametrize("cwd", ["..", "/etc", "link", "../outside", "a\0b", "\ud800"])
async def test_a_directory_outside_of_the_grants_is_refused(tmp_path: Path, cwd: str) -> None:
    """Security: what the model names as cwd grants nothing; a folder inside still works."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    (inside / "sub").mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    async with jobs_in(inside) as jobs:
        with pytest.raises(JobError) as caught:
            await jobs.start("pwd", cwd=cwd)
        assert caught.value.code == "cwd_invalid"
        assert jobs.launcher.pid is None
        ident = await jobs.start("pwd", cwd="sub")
        await jobs.ended(ident)
        assert jobs.text(ident) == f"{inside}/sub\n"
        assert len(jobs.service.list()) == 1


async def test_a_plan_that_allows_no_processes_runs_the_shell_alone(tmp_path: Path) -> None:
    """Security: the profile of the tool decides, for jobs as for calls."""
    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start("echo up; /bin/true", plan=plan_of(tmp_path, processes=False))
        job = await jobs.ended(ident)
        assert (job["state"], job["signal"]) == ("exited", None)
        assert job["exit_code"] != 0
        assert jobs.text(ident).startswith("up\n")


async def test_a_sandbox_that_can_not_be_had_is_a_failed_job(tmp_path: Path) -> None:
    """Never less confinement than was asked for; the job stays listed as failed."""
    async with jobs_in(tmp_path, ("no-userns",)) as jobs:
        with pytest.raises(JobError) as caught:
            await jobs.start("echo up", plan=plan_of(tmp_path, processes=True, tier="namespaces"))
        assert caught.value.code == "start_failed"
        (job,) = jobs.service.list()
        assert (job["state"], job["error"], job["output_bytes"]) == (
            "failed",
            caught.value.message,
            0,
        )


async def test_a_job_that_uses_too_much_memory_fails(tmp_path: Path) -> None:
    """A limit of its sandbox ended a process of it, or refused it memory."""
    plan = plan_of(tmp_path, processes=True, memory_bytes=64 * 1024 * 1024)
    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start(
            "x=$(head -c 400000000 /dev/zero | tr '\\0' a); echo up", plan=plan
        )
        job = await jobs.ended(ident)
        assert job["state"] in ("failed", "exited")
        assert "up" not in jobs.text(ident)


async def test_at_most_eight_jobs_live_and_an_end_makes_room(tmp_path: Path) -> None:
    """Contract: 8 live per session."""
    async with jobs_in(tmp_path) as jobs:
        idents = [await jobs.start("exec sleep 999") for _ in range(MAX_LIVE)]
        with pytest.raises(JobError, match="8 background jobs") as caught:
            await jobs.start("echo up")
        assert caught.value.code == "too_many_jobs"
        await jobs.service.stop(idents[0])
        assert outcome(await jobs.ended(await jobs.start("true"))) == ("exited", 0, None)


async def test_sessions_share_the_room_of_the_host(tmp_path: Path) -> None:
    """Contract: 32 per host; here 3, shared by two services."""
    room = HostRoom(3)
    async with jobs_in(tmp_path, room=room) as one, jobs_in(tmp_path, room=room) as two:
        first = await one.start("exec sleep 999")
        await one.start("exec sleep 999")
        await two.start("exec sleep 999")
        for jobs in (one, two):
            with pytest.raises(JobError, match="on this host") as caught:
                await jobs.start("echo up")
            assert caught.value.code == "too_many_jobs"
        await one.service.stop(first)
        await two.start("exec sleep 999")
        assert room.live == 3
    assert room.live == 0


def test_the_host_has_room_for_32_jobs() -> None:
    """Contract: 32 per host."""
    room = HostRoom()
    for _ in range(32):
        room.take()
    with pytest.raises(JobError, match="32 background jobs"):
        room.take()
    assert room.live == 32


async def test_the_last_hundred_finished_jobs_are_remembered(tmp_path: Path) -> None:
    """Contract: 100 finished kept; an older one is unknown."""
    async with jobs_in(tmp_path, ("no-userns",)) as jobs:
        plan = plan_of(tmp_path, tier="namespaces")  # refused, which is quick and finished
        for _ in range(MAX_FINISHED):
            with pytest.raises(JobError):
                await jobs.start("x", plan=plan)
        oldest = jobs.service.list()[-1]["id"]
        ident = await jobs.start("echo up")
        await jobs.ended(ident)
        listed = [job["id"] for job in jobs.service.list()]
        assert (len(listed), listed[0]) == (MAX_FINISHED, ident)
        with pytest.raises(JobError, match="no job") as caught:
            jobs.service.status(oldest)
        assert caught.value.code == "unknown_job"


async def test_live_jobs_are_listed_before_finished_ones(tmp_path: Path) -> None:
    """What still runs is what one looks for."""
    async with jobs_in(tmp_path) as jobs:
        first = await jobs.start("exec sleep 999")
        over = await jobs.start("true")
        await jobs.ended(over)
        second = await jobs.start("exec sleep 999")
        assert [job["id"] for job in jobs.service.list()] == [first, second, over]


async def test_closing_ends_every_job_and_leaves_nothing(tmp_path: Path) -> None:
    """Contract: a job does not outlive the host; not one that ignores signals either."""
    before = footprint()
    async with jobs_in(tmp_path) as jobs:
        idents = [
            await jobs.start("trap '' TERM HUP; setsid sleep 999 & echo up; wait; sleep 999")
            for _ in range(2)
        ]
        for ident in idents:
            await jobs.printed(ident, lambda text: "up" in text)
        service = jobs.service
    assert footprint() == before
    assert [job["state"] for job in service.list()] == ["stopped", "stopped"]
    with pytest.raises(JobError, match="closing"):
        await jobs.start("true")


async def test_a_killed_launcher_loses_its_jobs_and_the_next_one_works(tmp_path: Path) -> None:
    """Contract: lost, since nobody knows how it would have ended."""
    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start("exec sleep 999")
        pid = jobs.launcher.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        job = await jobs.ended(ident)
        assert (job["state"], job["error"]) == ("lost", "the launcher died, which ended the job")
        assert (await jobs.service.stop(ident))["state"] == "lost"
        assert outcome(await jobs.ended(await jobs.start("true"))) == ("exited", 0, None)


async def test_a_start_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    """Nobody would know its ID."""
    async with jobs_in(tmp_path) as jobs:
        with trio.CancelScope() as scope:
            scope.cancel()
            await jobs.start("exec sleep 999")
        assert scope.cancelled_caught
        (job,) = jobs.service.list()
        assert outcome(await jobs.ended(job["id"]))[0] == "stopped"


async def test_a_noisy_job_keeps_its_last_mebibyte(tmp_path: Path) -> None:
    """Contract: 1 MiB of recent output, what is dropped is counted."""
    async with jobs_in(tmp_path) as jobs:
        ident = await jobs.start("seq 300000")
        await jobs.ended(ident)
        data = "".join(f"{n}\n" for n in range(1, 300_001))
        page, job = jobs.service.output(
            ident, cursor=0, max_bytes=65536, max_encoded_bytes=1_000_000
        )
        dropped = len(data) - 1024 * 1024
        assert (job["output_bytes"], page.dropped_bytes, page.cursor) == (
            len(data),
            dropped,
            dropped,
        )
        assert page.text == data[dropped : dropped + 65536]


async def test_ids_do_not_tell_process_ids(tmp_path: Path) -> None:
    """Contract: opaque, never PIDs, and not to be guessed."""
    async with jobs_in(tmp_path) as jobs:
        idents = [await jobs.start("exec sleep 999") for _ in range(2)]
        assert len({*idents}) == 2
        assert all(len(ident) == len("job_") + 16 for ident in idents)


async def test_a_request_that_the_launcher_could_not_take_is_refused(tmp_path: Path) -> None:
    """Its packets hold 64 KiB; a long script belongs into a file."""
    async with jobs_in(tmp_path) as jobs:
        with pytest.raises(JobError) as caught:
            await jobs.start("true " + "é" * 20_000)
        assert (caught.value.code, jobs.service.list()) == ("command_too_large", [])
        ident = await jobs.start("true " + "x" * 32_000)
        assert outcome(await jobs.ended(ident)) == ("exited", 0, None)
