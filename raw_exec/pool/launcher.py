"""Client of the launcher: the one process that forks, confines, kills and reaps.

Rules
1. Every fork of the product happens in the launcher, which is single-threaded, so
   a parent-death signal is tied to the right thread (a trio supervisor forks from
   pool threads that end after ten idle seconds).
2. A ``Child`` exists from the answer ``spawned`` until the notice ``exited``; the
   launcher sends that notice once, after the whole tree is dead and reaped.
3. If the launcher dies, every child counts as lost at once; the kernel kills them
   through their parent-death signal, and we kill them again through their pidfds.
   The next spawn starts a new launcher, after a back-off.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from ..errors import InternalError, SandboxError, WorkerBroken
from ..private_root import remove_tree
from ..text import escape_text
from .child import Child, ExitNotice, ViewRoot
from .descriptors import close_all, received, rights_of
from .nursery import open_service_nursery
from .processes import reap, start_launcher, wait_dead

__all__ = ["Launcher", "open_launcher"]

_PACKET_BYTES = 64 * 1024
_HELLO_SECONDS = 15.0
_STOP_SECONDS = 5.0
_KILL_SECONDS = 2.0
"""How long the launcher may take to end a tree before we signal the worker ourselves."""
_SWEEP_SECONDS = 30.0
"""How long a launcher that still answers may take to end a tree and remove its files."""
_NOTICE_FIELDS = (
    "code",
    "signal",
    "core",
    "cpu_ms",
    "max_rss_bytes",
    "oom",
    "limit",
    "killed_extra",
)
_MAX_LOG_BYTES = 4096
_OUT_OF_FDS = "this process can't hold more descriptors"
_BACKOFF_SECONDS = (0.0, 0.1, 0.5, 2.0, 5.0)


class _Connection:
    """One live launcher process and its socket."""

    def __init__(self, process: subprocess.Popen[bytes], sock: trio.socket.SocketType) -> None:
        self.process = process
        self.sock = sock
        self.children: dict[str, Child] = {}
        self.answers: dict[str, _Answer] = {}
        self.capabilities: dict[str, Any] = {}
        self.dead = trio.Event()
        self.refusal: str | None = None
        """What it said when it could not go on, or the end of its standard error."""
        self.send_lock = trio.Lock()

    def broken(self) -> WorkerBroken:
        """Say that this launcher is gone, and what it said about it."""
        detail: dict[str, Any] = {"launcher": "died"}
        if self.refusal:
            detail["said"] = self.refusal
        return WorkerBroken("worker_crashed", "the launcher died", detail=detail)


@dataclass(slots=True, eq=False)
class _Answer:
    event: trio.Event = field(default_factory=trio.Event)
    message: dict[str, Any] | None = None
    fds: list[int] = field(default_factory=list)


class Launcher:
    """Spawns confined processes. Use ``open_launcher``.

    One launcher process serves one runtime. It is started by the first spawn or
    probe and restarted, with a back-off, if it dies.
    """

    def __init__(
        self, nursery: trio.Nursery, *, scratch_parent: Path, simulate: Sequence[str] = ()
    ) -> None:
        self._nursery = nursery
        self._scratch_parent = scratch_parent
        self._simulate = list(simulate)
        self._connection: _Connection | None = None
        self._start_lock = trio.Lock()
        self._next_id = 0
        self._failures = 0
        self.restarts = 0
        self.closed = False

    @property
    def pid(self) -> int | None:
        """Process ID of the running launcher, or ``None``."""
        connection = self._connection
        return None if connection is None else connection.process.pid

    @property
    def live_children(self) -> int:
        """Trees that were spawned and have not been reported dead."""
        return 0 if self._connection is None else len(self._connection.children)

    async def capabilities(self) -> dict[str, Any]:
        """Return what the host can enforce, probed by doing.

        Raises:
            WorkerBroken: The launcher could not be started.
        """
        connection = await self._ready()
        return connection.capabilities

    async def probe(self) -> dict[str, Any]:
        """Run the full probe, positive and negative checks included."""
        message, _ = await self._ask({"op": "probe"}, "probe")
        return dict(message["capabilities"])

    async def spawn(
        self,
        *,
        kind: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        fds: Mapping[int, int],
        scratch: bool,
        plan: Mapping[str, Any],
    ) -> Child:
        """Start one confined process tree.

        Args:
            kind: ``"exec"``, or ``"python"`` for a fork of the warm launcher.
            argv: Absolute program and its arguments; empty for ``"python"``.
            env: The whole environment; the launcher adds HOME and TMPDIR.
            cwd: Working directory inside the sandbox.
            fds: Target descriptor number → our descriptor. Ours stay open.
            scratch: Whether it gets a private directory.
            plan: The host plan, see ``raw_exec.sandbox.host_plan``.

        Raises:
            SandboxError: A restriction could not be put in force; names the step.
            WorkerBroken: The launcher died meanwhile.
        """
        self._next_id += 1
        ident = f"w{self._next_id}"
        targets = sorted(fds)
        request = {
            "op": "spawn",
            "id": ident,
            "kind": kind,
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "fds": targets,
            "scratch": ident if scratch else None,
            "plan": dict(plan),
        }
        # Race: a cancelled spawn would lose a live process, so the exchange is shielded;
        # the launcher bounds it, and its death ends the wait.
        with trio.CancelScope(shield=True):
            message, leftover = await self._ask(
                request, f"spawn:{ident}", [fds[target] for target in targets]
            )
            if message["op"] == "spawn_failed":
                close_all(leftover)
                raise _spawn_error(message)
        child: Child = message["child"]  # a short program may have ended by now
        return child

    async def kill(self, child: Child) -> ExitNotice:
        """End a whole tree now and return how its root ended. Not cancellable."""
        with trio.CancelScope(shield=True):
            if child.exit is None:
                try:
                    await self._send({"op": "kill", "id": child.id})
                except WorkerBroken:
                    pass  # the launcher is gone; its children are ended below or already were
                with trio.move_on_after(_KILL_SECONDS):
                    await child.exited.wait()
            if child.exit is None and child.pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                with trio.move_on_after(_KILL_SECONDS):
                    await child.exited.wait()
            with trio.move_on_after(_SWEEP_SECONDS):
                # It may have many processes or files to sweep; other calls need it meanwhile.
                while child.exit is None and await self._answers(child):
                    with trio.move_on_after(_KILL_SECONDS):
                        await child.exited.wait()
            if child.exit is None:
                # A stopped launcher can't report; the worker itself is dead by now, and
                # ending the launcher ends whatever is left of every tree.
                connection = self._connection
                if connection is not None:
                    connection.process.kill()
                await child.exited.wait()
        notice = child.exit
        assert notice is not None  # noqa: S101  (set together with the event)
        return notice

    async def _answers(self, child: Child) -> bool:
        """Say whether the launcher still reads and answers."""
        connection = self._connection
        if connection is not None:
            with trio.move_on_after(_KILL_SECONDS), contextlib.suppress(WorkerBroken):
                request = {"op": "usage", "id": child.id}
                await self._exchange(connection, request, f"usage:{child.id}")
                return True
        return False

    async def clean(self, child: Child) -> bool:
        """Empty a child's scratch directory; return whether nothing is left in it."""
        message, _ = await self._ask({"op": "clean", "id": child.id}, f"clean:{child.id}")
        return bool(message["complete"])

    async def usage(self, child: Child) -> dict[str, Any]:
        """Return resident bytes, CPU time, processes and scratch bytes of a tree."""
        message, _ = await self._ask({"op": "usage", "id": child.id}, f"usage:{child.id}")
        return message

    async def aclose(self) -> None:
        """End every tree and the launcher; return when all are gone."""
        self.closed = True
        with trio.CancelScope(shield=True):
            connection = self._connection
            if connection is None:
                return
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)
            with trio.move_on_after(_STOP_SECONDS):
                await connection.dead.wait()
            if not connection.dead.is_set():
                connection.process.kill()
                await connection.dead.wait()

    def let_go_after_fork(self) -> None:
        """Close a forked child's copy of the socket; this object is of no use there.

        The launcher ends every tree when its parent is gone, which it can't see while a child
        of that parent holds the socket open.
        """
        connection = self._connection
        if connection is not None and connection.sock.fileno() >= 0:
            os.close(connection.sock.detach())

    # -- internals ---------------------------------------------------------

    async def _ready(self) -> _Connection:
        connection = self._connection
        if connection is not None and not connection.dead.is_set():
            return connection
        async with self._start_lock:
            connection = self._connection
            if connection is not None and not connection.dead.is_set():
                return connection
            if self.closed:
                raise WorkerBroken("worker_crashed", "the runtime is closed")
            step = min(self._failures, len(_BACKOFF_SECONDS) - 1)
            await trio.sleep(_BACKOFF_SECONDS[step])
            with trio.CancelScope(shield=True):
                started = await self._start()
            return started  # noqa: RET504  (a `with` may swallow, for the type checker)

    async def _start(self) -> _Connection:
        try:
            started = start_launcher(self._scratch_parent)
        except OSError as exc:
            raise WorkerBroken("worker_crashed", f"launcher can't be started: {exc}") from exc
        process, scratch_root = started.process, started.scratch_root
        connection = _Connection(process, trio.socket.from_stdlib_socket(started.sock))
        self._connection = connection
        self._nursery.start_soon(self._serve, connection, started.stderr_fd, scratch_root)
        hello = {
            "op": "hello",
            "version": 1,
            "msgpack_dir": _msgpack_directory(),
            "scratch_root": scratch_root,
            "remove_at_end": str(self._scratch_parent),
        }
        if self._simulate:
            hello["simulate"] = self._simulate
        with trio.move_on_after(_HELLO_SECONDS) as scope:
            message, _ = await self._exchange(connection, hello, "hello")
        if scope.cancelled_caught:
            process.kill()
            await connection.dead.wait()
            raise WorkerBroken("worker_crashed", "launcher did not answer in time")
        connection.capabilities = dict(message["capabilities"])
        self._failures = 0
        return connection

    async def _ask(
        self, request: dict[str, Any], key: str, fds: Sequence[int] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        connection = await self._ready()
        return await self._exchange(connection, request, key, fds)

    async def _exchange(
        self,
        connection: _Connection,
        request: dict[str, Any],
        key: str,
        fds: Sequence[int] = (),
    ) -> tuple[dict[str, Any], list[int]]:
        while key in connection.answers:  # the same question is already on its way
            await connection.answers[key].event.wait()
        answer = connection.answers[key] = _Answer()
        try:
            await self._send_on(connection, request, fds)
            await answer.event.wait()
        finally:
            if connection.answers.get(key) is answer:
                del connection.answers[key]
        if answer.message is None:
            raise connection.broken()
        return answer.message, answer.fds

    async def _send(self, message: dict[str, Any]) -> None:
        connection = self._connection
        if connection is None or connection.dead.is_set():
            raise WorkerBroken("worker_crashed", "the launcher is not running")
        await self._send_on(connection, message, ())

    async def _send_on(
        self, connection: _Connection, message: dict[str, Any], fds: Sequence[int]
    ) -> None:
        data = json.dumps(message).encode("ascii")
        if len(data) > _PACKET_BYTES:
            raise SandboxError(
                "sandbox_unavailable",
                f"sandbox plan of {len(data)} bytes is over the limit of {_PACKET_BYTES}",
                step="protocol",
                hint="grant a common parent directory instead of many paths",
            )
        try:
            async with connection.send_lock:
                await connection.sock.sendmsg([data], rights_of(fds))
        except OSError as exc:
            raise WorkerBroken("worker_crashed", f"the launcher is gone: {exc}") from exc

    async def _serve(self, connection: _Connection, stderr_fd: int, scratch_root: str) -> None:
        """Read notices until the launcher is gone, then end everything that was its."""
        log = bytearray()
        with trio.CancelScope(shield=True):
            try:
                await self._read_notices(connection, stderr_fd, log)
            finally:
                try:
                    await self._bury(connection, stderr_fd, scratch_root, log)
                finally:
                    # Whatever fails above, nobody may wait for a launcher that is gone.
                    connection.dead.set()
                    for answer in list(connection.answers.values()):
                        answer.event.set()

    async def _bury(
        self, connection: _Connection, stderr_fd: int, scratch_root: str, log: bytearray
    ) -> None:
        if not self.closed:
            # Its end of file would mean to it that we are gone.
            connection.process.kill()
        connection.sock.close()
        if self._connection is connection:
            self._connection = None
        await reap(connection.process)
        _take_log(stderr_fd, log)
        os.close(stderr_fd)
        if connection.refusal is None and log:
            connection.refusal = escape_text(log.decode("utf-8", "replace"))
        if not self.closed:
            self._failures += 1
            self.restarts += 1
        for child in list(connection.children.values()):
            if child.pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
                await wait_dead(child.pidfd)
            child.end(ExitNotice(lost=True))
        connection.children.clear()
        # What a launcher that was itself killed left behind.
        await trio.to_thread.run_sync(remove_tree, Path(scratch_root))

    async def _read_notices(self, connection: _Connection, stderr_fd: int, log: bytearray) -> None:
        while True:
            try:
                data, rights, flags, _address = await connection.sock.recvmsg(
                    _PACKET_BYTES + 1, socket.CMSG_SPACE(8 * 4), socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                return
            fds = received(rights)
            if not data:
                close_all(fds)
                return
            _take_log(stderr_fd, log)
            message = json.loads(data)
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                message = {"op": "error", "message": f"{message['op']} came cut: {_OUT_OF_FDS}"}
            if message.get("op") == "error":  # nobody knows what it left undone
                connection.refusal = str(message["message"])
                close_all(fds)
                return
            self._handle(connection, message, fds)

    def _handle(self, connection: _Connection, message: dict[str, Any], fds: list[int]) -> None:
        op = message.get("op")
        if op == "exited":
            child = connection.children.pop(message["id"], None)
            close_all(fds)
            if child is not None:
                child.end(ExitNotice(**{name: message[name] for name in _NOTICE_FIELDS}))
            return
        if op in ("spawned", "spawn_failed"):
            key = f"spawn:{message['id']}"
            if op == "spawned":
                if not 1 <= len(fds) <= 2:
                    raise InternalError("internal", f"launcher sent {len(fds)} descriptors")
                scratch_fd = fds.pop() if len(fds) == 2 else -1
                # No await between here and the table: an exit notice may be next.
                connection.children[message["id"]] = message["child"] = Child(
                    id=message["id"],
                    pid=message["pid"],
                    pidfd=fds.pop(),
                    enforced=message["enforced"],
                    scratch=message.get("scratch") or "",
                    scratch_fd=scratch_fd,
                    scratch_private=bool(message.get("scratch_private")),
                    views=tuple(ViewRoot(**view) for view in message["views"]),
                )
        elif op in ("cleaned", "usage"):
            key = f"{'clean' if op == 'cleaned' else 'usage'}:{message['id']}"
        else:
            key = str(op)
        answer = connection.answers.get(key)
        if answer is None:
            close_all(fds)
            return
        answer.message, answer.fds = message, fds
        answer.event.set()


@asynccontextmanager
async def open_launcher(
    *, scratch_parent: Path, simulate: Sequence[str] = ()
) -> AsyncIterator[Launcher]:
    """Open a launcher client; on exit every process it started is dead and reaped."""
    async with open_service_nursery() as nursery:
        launcher = Launcher(nursery, scratch_parent=scratch_parent, simulate=simulate)
        try:
            yield launcher
        finally:
            await launcher.aclose()


def _spawn_error(message: dict[str, Any]) -> SandboxError | WorkerBroken:
    step, number = str(message["step"]), int(message["errno"])
    if step == "setup" and number == 0:  # something killed it: no word about this host
        return WorkerBroken("worker_crashed", str(message["message"]), detail={"stage": step})
    return SandboxError(
        "sandbox_unavailable",
        f"sandbox set-up failed at {step}: {message['message']}",
        step=step,
        errno=number,
        hint="run 'raw doctor' to see what this host can enforce",
    )


def _msgpack_directory() -> str | None:
    import msgpack

    file = msgpack.__file__
    return None if file is None else str(Path(file).resolve().parent.parent)


def _take_log(fd: int, log: bytearray) -> None:
    """Keep the end of what the launcher wrote to its standard error."""
    with contextlib.suppress(BlockingIOError):
        log += os.read(fd, 8192)
        del log[:-_MAX_LOG_BYTES]
