"""One-shot programs: variable providers, and whatever else answers once and ends.

Rules
1. A program is found and its interpreter is looked up before anything runs, and no shell
   is ever involved: the argument vector reaches it as it is.
2. Bounds are wall time, and bytes over standard output and error together. Reaching one
   ends the program: SIGTERM to its process group, a grace period, SIGKILL to its tree.
3. The end is the launcher's exit notice, which comes when the whole tree is dead and
   reaped; never the end of a pipe, which a detached process could keep open.

Not covered: what the program does inside its bounds and grants.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import trio

from ..errors import RawExecError, SandboxError, WorkerError
from ..sandbox import RuntimeFiles, SandboxPlan, host_plan, program_files
from .child import Child
from .launcher import Launcher
from .runtimes import examine_node, find_node

__all__ = [
    "Program",
    "ProgramOutcome",
    "ProgramUnavailable",
    "end_program",
    "find_program",
    "run_program",
]

_CHUNK_BYTES = 64 * 1024
_SHEBANG_BYTES = 256
_PROCESS_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9
_PYTHON = re.compile(r"python[0-9.]*")
_BASE_PATH = "/usr/local/bin:/usr/bin:/bin"


class ProgramUnavailable(RawExecError):
    """A program can't be started at all.

    ``code`` is ``program_missing``, ``program_not_executable``, ``interpreter_missing`` or
    ``program_refused`` (the kernel would not execute it).
    """


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be started.

    Args:
        argv: Absolute program and its arguments, a script's interpreter put in front.
        files: What it needs to read and execute to run at all.
        env: The environment it gets by default; nothing is inherited.
    """

    argv: tuple[str, ...]
    files: RuntimeFiles
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """How a program ended.

    Args:
        stdout: What it printed, cut at the bound. Security: may be a secret.
        stderr: The same, of standard error.
        code: Exit status, when it exited.
        signal: Signal number, when one ended it.
        timed_out: It was ended because its time was over.
        overflowed: It was ended because it printed too much.
        enforced: What the kernel enforced on it.
        elapsed_ms: From start to the end of its tree, milliseconds.
    """

    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    code: int | None
    signal: int | None
    timed_out: bool
    overflowed: bool
    enforced: Mapping[str, Any]
    elapsed_ms: float


# ---------------------------------------------------------------- finding


def find_program(
    command: str,
    args: Sequence[str] = (),
    *,
    directory: str | os.PathLike[str],
    environ: Mapping[str, str] | None = None,
) -> Program:
    """Find a program and what it needs. It is not run, and no shell is asked.

    Blocks: run it in a thread. A Node executable is asked once, by itself, what its build
    reserves before it runs code.

    A name without ``/`` is looked up on ``PATH``; other names are relative to ``directory``.
    For ``node`` and ``python`` scripts on ``PATH`` are passed over: version managers put
    them there, and a sandbox grants one executable, not what a script goes on to start.

    Raises:
        ProgramUnavailable: There is none, or it can't be executed.
    """
    environ = os.environ if environ is None else environ
    path = _locate(command, Path(directory), environ)
    words = _shebang(path)
    argv = [str(path), *args]
    if words:
        argv = [*_interpreter(words, path, environ), *argv]
    real = os.path.realpath(argv[0])
    found = program_files(argv[0])
    read = [*found.read, str(path), str(path.resolve()), *_language_files(argv[0])]
    env = {"PATH": _BASE_PATH, "LANG": "C.UTF-8"}
    base_data_bytes = found.base_data_bytes
    if os.path.basename(real) == "node":
        # Node exits with 13 when its OpenSSL configuration exists but may not be read.
        env |= {"OPENSSL_CONF": "/nonexistent/openssl.cnf", "NODE_NO_WARNINGS": "1"}
        status = os.stat(real)
        base_data_bytes = _node_base_bytes(real, status.st_size, status.st_mtime_ns)
    files = dataclasses.replace(
        found, read=tuple(dict.fromkeys(read)), base_data_bytes=base_data_bytes
    )
    return Program(tuple(argv), files, env)


@cache
def _node_base_bytes(path: str, _size: int, _changed_ns: int) -> int:
    try:
        return examine_node(Path(path)).base_data_bytes
    except WorkerError as exc:
        raise ProgramUnavailable("program_refused", exc.message, hint=exc.hint) from None


def _locate(command: str, directory: Path, environ: Mapping[str, str]) -> Path:
    if "/" in command:
        path = Path(os.path.abspath(directory / command))
        if not path.exists():
            raise ProgramUnavailable("program_missing", f"{command!r} does not exist")
        if not path.is_file() or not os.access(path, os.X_OK):
            raise ProgramUnavailable(
                "program_not_executable",
                f"{command!r} is not an executable file",
                hint=None if path.is_dir() else "chmod +x it, or name its interpreter as command",
            )
        return path
    if command == "node":
        try:
            return find_node(environ=environ).path
        except WorkerError as exc:
            raise ProgramUnavailable("program_missing", exc.message, hint=exc.hint) from None
    search = [part for part in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(part)]
    for part in search:
        found = shutil.which(command, path=part)
        if found is not None and not (_PYTHON.fullmatch(command) and _shebang(Path(found))):
            return Path(found)
    raise ProgramUnavailable(
        "program_missing",
        f"there is no program {command!r} on PATH",
        hint="a program of your own is named by a path, such as './provider'",
    )


def _shebang(path: Path) -> list[str]:
    """Return the interpreter and its one argument that a script names, or nothing."""
    try:
        with path.open("rb") as file:
            head = file.read(_SHEBANG_BYTES)
    except OSError:
        return []
    if not head.startswith(b"#!"):
        return []
    line = os.fsdecode(head[2:].split(b"\n", 1)[0]).strip()
    return line.split(maxsplit=1)


def _interpreter(words: list[str], script: Path, environ: Mapping[str, str]) -> list[str]:
    """Do what the kernel and ``env`` would do, so that only one program is executed."""
    name, *rest = words
    if os.path.basename(name) == "env" and rest:
        parts = rest[0].removeprefix("-S ").split()
        name, rest = parts[0], parts[1:]
        try:
            name = str(_locate(name, script.parent, environ))
        except ProgramUnavailable:
            name = ""
    if not os.path.isabs(name) or not os.access(name, os.X_OK) or _shebang(Path(name)):
        raise ProgramUnavailable(
            "interpreter_missing",
            f"the interpreter that {script.name!r} names in its first line can't be used",
            hint="its first line must lead to an installed program",
        )
    return [name, *rest]


def _language_files(binary: str) -> list[str]:
    """Return the library folders of a Python interpreter, by where it lies."""
    real = Path(os.path.realpath(binary))
    if _PYTHON.fullmatch(real.name) is None:
        return []
    prefix = real.parent.parent
    found = [str(path) for lib in ("lib", "lib64") for path in (prefix / lib).glob("python3*")]
    home = Path(binary).parent.parent
    if (home / "pyvenv.cfg").is_file():
        found.append(str(home))
    return found


# ---------------------------------------------------------------- running


class _Capture:
    """Both output streams of one program, under one bound."""

    def __init__(self, max_bytes: int, scope: trio.CancelScope) -> None:
        self._left = max_bytes
        self._scope = scope
        self.overflowed = False

    def read(self, fd: int, into: bytearray) -> bool:
        """Read once without waiting; return whether there may be more.

        Raises:
            BlockingIOError: There is nothing now.
        """
        data = os.read(fd, _CHUNK_BYTES)
        into += data[: self._left]
        self._left -= len(data)
        if self._left < 0:
            self._left = 0
            self.overflowed = True
            self._scope.cancel()
        return bool(data) and not self.overflowed

    async def pump(self, fd: int, into: bytearray) -> None:
        """Read until the stream ends or the bound is passed."""
        more = True
        while more:
            await trio.lowlevel.wait_readable(fd)
            more = self.read(fd, into)

    def drain(self, fd: int, into: bytearray) -> None:
        """Take what a dead program left in its pipe."""
        try:
            while self.read(fd, into):
                pass
        except BlockingIOError:
            pass  # somebody outside its tree still holds the other end


async def run_program(
    launcher: Launcher,
    *,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    plan: SandboxPlan,
    files: RuntimeFiles,
    stdin: bytes = b"",
    timeout_ms: int,
    max_output_bytes: int,
    grace_ms: int = 500,
    use: tuple[str, ...] = ("namespaces", "cgroup"),
    snapshot_dir: str | None = None,
) -> ProgramOutcome:
    """Run a program once, within bounds, and return when its whole tree is gone.

    If cancelled, it is ended as at a bound, and only then ``Cancelled`` goes on.

    Args:
        argv: Absolute program and its arguments.
        env: The whole environment; HOME and TMPDIR come on top.
        cwd: Absolute working directory.
        files: What the program itself needs, see ``find_program``.
        stdin: What it can read; then comes the end of file.
        timeout_ms: Wall time from its start.
        max_output_bytes: Of standard output and error, together.
        grace_ms: Between SIGTERM and SIGKILL.
        use: Optional mechanisms of the sandbox.
        snapshot_dir: A frozen folder that it may read.

    Raises:
        ProgramUnavailable: The kernel will not execute it.
        SandboxError: The plan can't be enforced here.
        WorkerBroken: The launcher died.
    """
    started = time.perf_counter()
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for we_read in (False, True, True):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            theirs.append(writer if we_read else reader)
            ours.append(reader if we_read else writer)
            os.set_blocking(ours[-1], False)
        child = await _spawn(
            launcher,
            kind="exec",
            argv=argv,
            env=env,
            cwd=cwd,
            fds=dict(enumerate(theirs)),
            scratch=True,
            plan=host_plan(plan, runtime=files, snapshot_dir=snapshot_dir, use=use),
        )
        while theirs:
            os.close(theirs.pop())
        return await _serve(
            launcher, child, ours, stdin, timeout_ms, max_output_bytes, grace_ms, started
        )
    finally:
        for fd in (*theirs, *ours):
            if fd >= 0:
                os.close(fd)


async def _spawn(launcher: Launcher, **request: Any) -> Child:
    try:
        return await launcher.spawn(**request)
    except SandboxError as exc:
        if exc.step not in ("exec", "cwd"):
            raise
        reason = os.strerror(exc.errno) if exc.errno else exc.message
        what = "it can't be executed" if exc.step == "exec" else "its directory can't be entered"
        hint = "is it built for this machine?" if exc.errno == errno.ENOEXEC else None
        raise ProgramUnavailable("program_refused", f"{what}: {reason}", hint=hint) from exc


async def _serve(
    launcher: Launcher,
    child: Child,
    ours: list[int],
    stdin: bytes,
    timeout_ms: int,
    max_output_bytes: int,
    grace_ms: int,
    started: float,
) -> ProgramOutcome:
    out, err = bytearray(), bytearray()
    deadline = trio.current_time() + timeout_ms / 1000
    try:
        with trio.CancelScope(deadline=deadline) as scope:
            capture = _Capture(max_output_bytes, scope)
            child.on_exit = scope
            if child.exit is None:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_feed, ours, stdin)
                    nursery.start_soon(capture.pump, ours[1], out)
                    nursery.start_soon(capture.pump, ours[2], err)
                    # The exit notice, the deadline and the byte bound all cancel the scope.
                    await trio.sleep_forever()
        child.on_exit = None
        ended = child.exit is not None
    finally:
        child.on_exit = None
        if child.exit is None:
            await end_program(launcher, child, grace_ms)
    notice = child.exit
    assert notice is not None  # noqa: S101  (it ended by itself, or was ended above)
    for fd, into in ((ours[1], out), (ours[2], err)):
        if not capture.overflowed:
            capture.drain(fd, into)
    return ProgramOutcome(
        stdout=bytes(out),
        stderr=bytes(err),
        code=notice.code,
        signal=notice.signal,
        timed_out=not ended and not capture.overflowed,
        overflowed=capture.overflowed,
        enforced=child.enforced,
        elapsed_ms=(time.perf_counter() - started) * 1000,
    )


async def _feed(ours: list[int], data: bytes) -> None:
    """Write the input and close it; a program need not read it."""
    fd = ours[0]
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(fd)
        except BrokenPipeError:
            break
    ours[0] = -1
    os.close(fd)


async def end_program(launcher: Launcher, child: Child, grace_ms: int) -> None:
    """End a tree: SIGTERM to its process group, the grace period, SIGKILL to all of it.

    Not cancellable.
    """
    with trio.CancelScope(shield=True):
        _terminate_group(child)
        with trio.move_on_after(grace_ms / 1000):
            await child.exited.wait()
        await launcher.kill(child)


def _terminate_group(child: Child) -> None:
    for flags in (_PROCESS_GROUP, 0):
        if child.pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(child.pidfd, signal.SIGTERM, None, flags)
        except OSError as exc:
            # An older kernel does not know the flag: then the program alone is told.
            if exc.errno == errno.EINVAL and flags:
                continue
        return
