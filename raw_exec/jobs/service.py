"""Starts, watches and ends background jobs, through the launcher like everything else.

Rules
1. A job belongs to the supervisor, since the worker of the call that asked for it may be
   retired at any time. It is a spawn of its own, confined by the plan of the tool that
   asked, for the working directory of the call that asked.
2. A job ends with its shell: what that leaves running is ended by the launcher. Its end is
   the launcher's exit notice, when the whole tree is dead and reaped.
3. Standard output and error are one pipe, so their order is as written.
4. Limits: ``MAX_LIVE`` jobs, ``MAX_FINISHED`` finished ones are remembered, the host's room
   is shared with the other runtimes of this process.
5. On close every job is ended at once, before ``open_jobs`` returns.

Not covered: what a job does inside its sandbox. A job that prints without end is slowed
down, not ended.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import trio

from ..errors import SandboxError, WorkerBroken
from ..pool import Child, Launcher
from ..pool.nursery import open_service_nursery
from ..pool.oneshot import end_program
from ..pool.runtimes import python_environment
from ..sandbox import (
    RuntimeFiles,
    SandboxPlan,
    explain_path,
    host_plan,
    program_files,
    python_files,
)
from .failures import JobError
from .job import Job
from .ring import Page
from .room import HOST_ROOM, HostRoom
from .state import JobEvent

__all__ = ["MAX_FINISHED", "MAX_LIVE", "JobService", "open_jobs"]

MAX_LIVE = 8
MAX_FINISHED = 100

_CHUNK_BYTES = 64 * 1024
_FLOOD_PAUSE_SECONDS = 0.002
"""After a full chunk: 32 MB/s is more than anyone reads, and leaves the event loop alone."""
_MAX_REQUEST_BYTES = 40 * 1024
"""Command and environment, encoded for the launcher, whose packets hold 64 KiB."""


class JobService:
    """The jobs of one runtime. Use ``open_jobs``.

    Args:
        launcher: Starts and ends them.
        nursery: Their watchers run here.
        grace_ms: Between SIGTERM and SIGKILL.
        room: Shared with other runtimes of this process.
        on_change: Called with a job that has come to another state; must not raise.
    """

    def __init__(
        self,
        launcher: Launcher,
        nursery: trio.Nursery,
        *,
        grace_ms: int = 500,
        room: HostRoom = HOST_ROOM,
        use: tuple[str, ...] = ("namespaces", "cgroup"),
        on_change: Callable[[Job], None] | None = None,
    ) -> None:
        self._launcher = launcher
        self._nursery = nursery
        self._grace_ms = grace_ms
        self._room = room
        self._use = use
        self._on_change = on_change
        self._live: dict[str, Job] = {}
        self._finished: dict[str, Job] = {}
        self._closed = False

    # -- public ------------------------------------------------------------

    async def start(
        self,
        command: str,
        *,
        plan: SandboxPlan,
        base: str,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        label: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[str, Any]:
        """Start a command and return what is known of its job once its shell runs.

        If cancelled before that, the job is ended.

        Args:
            command: For ``bash -c``, or ``sh -c`` where there is no bash.
            plan: What it is granted.
            base: Absolute working directory of the call.
            cwd: Where it starts, relative to ``base``.
            env: Added to its environment. Security: may hold secrets.
            label: The model's own name for it.
            timeout_ms: How long it may run; for ever by default.

        Raises:
            JobError: ``too_many_jobs``, ``cwd_invalid``, ``command_too_large``, ``closed``
                or ``start_failed``.
        """
        if self._closed:
            raise JobError("closed", "the runtime is closing")
        directory = _resolve_cwd(plan, base, cwd)
        environ = {**python_environment(), **(env or {})}
        _check_size(command, environ)
        if len(self._live) >= MAX_LIVE:
            raise JobError(
                "too_many_jobs",
                f"{len(self._live)} background jobs run, which is the limit",
                hint="stop one, or wait until one has ended",
            )
        self._room.take()
        begun = trio.current_time()
        job = Job(
            f"job_{secrets.token_hex(8)}",
            command,
            label,
            timeout_ms,
            begun,
            on_change=self._on_change,
        )
        self._live[job.id] = job
        request = {
            "kind": "exec",
            # "--": a command may begin with a dash.
            "argv": [_find_shell(), "-c", "--", command],
            "env": environ,
            "cwd": directory,
            "scratch": True,
            "plan": host_plan(plan, runtime=_shell_files(), snapshot_dir=None, use=self._use),
        }
        self._nursery.start_soon(self._run, job, request)
        try:
            await job.started.wait()
        except BaseException:
            job.ask_to_stop()  # nobody knows its ID
            raise
        if not job.ran:
            raise JobError("start_failed", job.error or "it was ended before it ran")
        return job.as_dict()

    def list(self) -> list[dict[str, Any]]:
        """Describe every job: live ones by age, then finished ones, the latest first."""
        jobs = [*self._live.values(), *reversed(self._finished.values())]
        return [job.as_dict() for job in jobs]

    def status(self, ident: str) -> dict[str, Any]:
        """Describe one job.

        Raises:
            JobError: ``unknown_job``.
        """
        return self._find(ident).as_dict()

    def output(
        self, ident: str, *, cursor: int, max_bytes: int, max_encoded_bytes: int
    ) -> tuple[Page, dict[str, Any]]:
        """Return a page of a job's output, and what is known of the job.

        Raises:
            JobError: ``unknown_job`` or ``cursor_invalid``.
        """
        job = self._find(ident)
        page = job.output.page(
            cursor,
            max_bytes=max_bytes,
            max_encoded_bytes=max_encoded_bytes,
            finished=job.settled.is_set(),
        )
        return page, job.as_dict()

    async def stop(self, ident: str) -> dict[str, Any]:
        """End a job and return when it has ended. Ending it again changes nothing.

        If cancelled, it is ended all the same.

        Raises:
            JobError: ``unknown_job``.
        """
        job = self._find(ident)
        job.ask_to_stop()
        await job.settled.wait()
        return job.as_dict()

    def close(self) -> None:
        """Start no more jobs."""
        self._closed = True

    # -- one job -----------------------------------------------------------

    def _find(self, ident: str) -> Job:
        job = self._live.get(ident) or self._finished.get(ident)
        if job is None:
            raise JobError(
                "unknown_job",
                f"there is no job {ident!r:.80}",
                hint=f"list names them; of those that ended the last {MAX_FINISHED} are kept",
            )
        return job

    async def _run(self, job: Job, request: dict[str, Any]) -> None:
        """Start a job, watch it to its end, and record that."""
        try:
            with ExitStack() as ours:
                reader, child = await self._spawn(request, ours)
                # No await between a live process and what guards it.
                await self._watch(job, child, reader)
        except (SandboxError, WorkerBroken) as exc:
            job.error = exc.message
            job.take(JobEvent.FAILED)
        except OSError as exc:  # no descriptors left: one job's trouble, not the runtime's
            job.error = f"no pipe can be made for it: {exc.strerror}"
            job.take(JobEvent.FAILED)
        finally:
            if not job.finished:  # the runtime is closing
                job.take(JobEvent.END_ASKED)
                job.take(JobEvent.STOPPED)
            self._keep_finished(job)
            job.started.set()
            job.settled.set()

    async def _spawn(self, request: dict[str, Any], ours: ExitStack) -> tuple[int, Child]:
        """Start the shell; return where its output can be read, closed with ``ours``."""
        with ExitStack() as theirs:
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            theirs.callback(os.close, null)
            reader, writer = os.pipe2(os.O_CLOEXEC)
            ours.callback(os.close, reader)
            theirs.callback(os.close, writer)
            os.set_blocking(reader, False)
            child = await self._launcher.spawn(**request, fds={0: null, 1: writer, 2: writer})
        return reader, child

    async def _watch(self, job: Job, child: Child, reader: int) -> None:
        timed_out = False
        try:
            job.take(JobEvent.SPAWNED)
            job.ran = True
            job.started.set()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, job, reader)
                with trio.move_on_after(_seconds(job.timeout_ms)) as job.scope:
                    if job.stop_asked:
                        job.scope.cancel()
                    await child.exited.wait()
                if child.exit is None:
                    timed_out = not job.stop_asked
                    job.take(JobEvent.END_ASKED)
                    await end_program(self._launcher, child, self._grace_ms)
                nursery.cancel_scope.cancel()
        finally:
            job.scope = None
            if child.exit is None:
                await self._launcher.kill(child)
        _drain(job, reader)
        assert child.exit is not None  # noqa: S101  (awaited, or ended above)
        job.take_notice(child.exit, timed_out=timed_out)

    def _keep_finished(self, job: Job) -> None:
        del self._live[job.id]
        self._room.give_back()
        self._finished[job.id] = job
        while len(self._finished) > MAX_FINISHED:
            del self._finished[next(iter(self._finished))]


def _seconds(milliseconds: int | None) -> float:
    return math.inf if milliseconds is None else milliseconds / 1000


async def _pump(job: Job, reader: int) -> None:
    while True:
        await trio.lowlevel.wait_readable(reader)
        data = os.read(reader, _CHUNK_BYTES)
        if not data:
            return
        job.output.append(data)
        if len(data) == _CHUNK_BYTES:
            await trio.sleep(_FLOOD_PAUSE_SECONDS)


def _drain(job: Job, reader: int) -> None:
    """Take what a dead job left in its pipe."""
    try:
        while data := os.read(reader, _CHUNK_BYTES):
            job.output.append(data)
    except BlockingIOError:
        pass  # somebody outside its tree still holds the other end


def _find_shell() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _shell_files() -> RuntimeFiles:
    """Return what the worker of ``bash`` can read too, so that a command runs alike in both."""
    shell, python = program_files(_find_shell()), python_files()
    return RuntimeFiles("shell", (*python.read, *shell.read), (*python.execute, *shell.execute))


def _resolve_cwd(plan: SandboxPlan, base: str, cwd: str | None) -> str:
    """Return the absolute directory, if the plan grants it.

    Security: the plan is derived for ``base``, which the host chose, and never for ``cwd``,
    which the model chose: that would grant whatever it names.
    """
    try:
        path = os.path.realpath(base if cwd is None else os.path.join(base, cwd))
    except ValueError:  # NUL, or a lone surrogate
        raise JobError("cwd_invalid", f"cwd {cwd!r:.200} can't be a path") from None
    if not explain_path(plan, path).read:
        raise JobError(
            "cwd_invalid",
            f"cwd {cwd if cwd is not None else base!r:.200} is outside of what the sandbox grants",
            hint="a directory in the working directory",
        )
    if not os.path.isdir(path):
        raise JobError("cwd_invalid", f"cwd {cwd!r:.200} is not a directory")
    return path


def _check_size(command: str, environ: Mapping[str, str]) -> None:
    size = len(json.dumps([command, dict(environ)]))
    if size > _MAX_REQUEST_BYTES:
        raise JobError(
            "command_too_large",
            f"command and variables take {size} bytes, encoded as ASCII; "
            f"at most {_MAX_REQUEST_BYTES} are possible",
            hint="write a script file and run that",
        )


@asynccontextmanager
async def open_jobs(
    launcher: Launcher,
    *,
    grace_ms: int = 500,
    room: HostRoom = HOST_ROOM,
    use: tuple[str, ...] = ("namespaces", "cgroup"),
    on_change: Callable[[Job], None] | None = None,
) -> AsyncIterator[JobService]:
    """Open the background jobs of a runtime or a session. Starts nothing.

    On exit every job is ended and reaped.
    """
    async with open_service_nursery() as nursery:
        service = JobService(
            launcher, nursery, grace_ms=grace_ms, room=room, use=use, on_change=on_change
        )
        try:
            yield service
        finally:
            service.close()
            nursery.cancel_scope.cancel()
