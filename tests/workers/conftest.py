"""Real worker processes, started as the launcher would but without a sandbox."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from raw_exec.wire import NEED_DATA, Event, Failed, Loaded, Ready, Result, WorkerConnection
from requires import require_node

ROOT = Path(__file__).parents[2]
MAX_FRAME_BYTES = 32 * 1024 * 1024
PATIENCE_SECONDS = 20.0
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}


def command(runtime: str) -> list[str]:
    """Return the argv of a worker."""
    if runtime == "node":
        return [require_node(), str(ROOT / "workers" / "node" / "bridge.cjs")]
    packages = str(Path(msgpack.__file__).parents[1])
    script = str(ROOT / "workers" / "python" / "main.py")
    return [sys.executable, "-I", "-S", "-W", "error", script, "--msgpack-dir", packages]


class Worker:
    """One worker process and the supervisor's connection to it."""

    def __init__(self, runtime: str, folder: Path) -> None:
        self.runtime = runtime
        self.connection = WorkerConnection(MAX_FRAME_BYTES)
        self._folder = folder
        self._last_id = 0
        self._exit: int | None = None
        ends = [os.pipe() for _ in range(5)]
        (requests, self.requests), (self.replies, replies), (control, self.control) = ends[:3]
        (self._out, out), (self._err, err) = ends[3:]
        given = [os.open(os.devnull, os.O_RDONLY), out, err, requests, replies, control]
        # Out of the way of the numbers they are to have.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in given]
        argv = command(runtime)
        self.pid = os.posix_spawn(
            argv[0],
            argv,
            ENVIRONMENT,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(high)],
        )
        for fd in given + high:
            os.close(fd)
        self.open_fds = [self.requests, self.replies, self.control, self._out, self._err]

    def write_plugin(self, source: str) -> str:
        """Write the plugin's entry file and return its path."""
        path = self._folder / ("index.mjs" if self.runtime == "node" else "index.py")
        path.write_text(textwrap.dedent(source))
        return str(path)

    def write(self, data: bytes, fd: int | None = None) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.requests if fd is None else fd, view) :]

    def receive(self) -> Event:
        """Return the next event.

        Raises:
            EOFError: The worker closed its replies.
            TimeoutError: Nothing came.
        """
        waiter = select.poll()
        waiter.register(self.replies, select.POLLIN)
        while (event := self.connection.next_event()) is NEED_DATA:
            if not waiter.poll(PATIENCE_SECONDS * 1000):
                raise TimeoutError(f"{self.runtime} worker said nothing; log: {self.log()!r}")
            data = os.read(self.replies, 1024 * 1024)
            if not data:
                raise EOFError
            self.connection.receive_data(data)
        return event

    def load(self, source: str, kind: str = "handler") -> Event:
        entry = self.write_plugin(source)
        self.write(self.connection.send_load(entry=entry, name="tool", kind=kind))
        return self.receive()

    def start_call(self, args: Any = None, result_bytes: int = 16 * 1024 * 1024) -> int:
        """Send a call without waiting for its end."""
        self._last_id += 1
        frame = self.connection.send_call(
            id=self._last_id,
            args=args,
            cwd="/srv",
            tool_call_id="call-1",
            max_output_bytes=1234,
            result_bytes=result_bytes,
            scratch="/tmp",
        )
        self.write(frame)
        return self._last_id

    def call(self, args: Any = None, result_bytes: int = 16 * 1024 * 1024) -> Event:
        self.start_call(args, result_bytes)
        return self.receive()

    def value(self, args: Any = None) -> Any:
        """Call and return the value; anything else fails the test."""
        event = self.call(args)
        assert isinstance(event, Result), event
        return event.value

    def failure(self, args: Any = None, **options: Any) -> Failed:
        event = self.call(args, **options)
        assert isinstance(event, Failed), event
        return event

    def describe(self, fn: str, args: Any = None) -> Event:
        self._last_id += 1
        self.write(self.connection.send_describe(id=self._last_id, fn=fn, args=args, cwd="/srv"))
        return self.receive()

    def ping(self) -> Event:
        self._last_id += 1
        self.write(self.connection.send_ping(id=self._last_id))
        return self.receive()

    def abort(self, call_id: int, reason: str = "cancelled") -> None:
        self.write(self.connection.send_abort(id=call_id, reason=reason), self.control)

    def wait_for_log(self, text: str) -> None:
        """Wait until stdout holds ``text``."""
        seen = b""
        waiter = select.poll()
        waiter.register(self._out, select.POLLIN)
        while text.encode() not in seen:
            if not waiter.poll(PATIENCE_SECONDS * 1000):
                raise TimeoutError(f"{text!r} was not printed; {seen!r} was")
            seen += os.read(self._out, 65536)

    def log(self) -> tuple[str, str]:
        """Return what stdout and stderr hold now."""
        texts = []
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)
            data = b""
            with contextlib.suppress(BlockingIOError):
                while part := os.read(fd, 65536):
                    data += part
            texts.append(data.decode())
        return texts[0], texts[1]

    def wait(self) -> int:
        """Return the exit code, or minus the signal."""
        if self._exit is None:
            deadline = time.monotonic() + PATIENCE_SECONDS
            fd = os.pidfd_open(self.pid)
            try:
                if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    os.kill(self.pid, signal.SIGKILL)
            finally:
                os.close(fd)
            self._exit = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._exit

    def end(self) -> None:
        for fd in self.open_fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        if self._exit is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


StartWorker = Callable[[str], Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers of a runtime; each is ready, and ended after the test."""
    workers: list[Worker] = []

    def start_one(runtime: str) -> Worker:
        folder = tmp_path / str(len(workers))
        folder.mkdir()
        worker = Worker(runtime, folder)
        workers.append(worker)
        assert isinstance(worker.receive(), Ready)
        return worker

    yield start_one
    for worker in workers:
        worker.end()


@pytest.fixture
def load(start: StartWorker) -> Callable[..., Worker]:
    """Start a worker and import a plugin in it."""

    def load_one(runtime: str, source: str, kind: str = "handler") -> Worker:
        worker = start(runtime)
        event = worker.load(source, kind)
        assert isinstance(event, Loaded), event
        return worker

    return load_one


@pytest.fixture
def node(load: Callable[..., Worker]) -> Callable[..., Worker]:
    """Start a Node worker with a plugin."""
    return lambda source, kind="handler": load("node", source, kind)


@pytest.fixture
def python(load: Callable[..., Worker]) -> Callable[..., Worker]:
    """Start a Python worker with a plugin."""
    return lambda source, kind="handler": load("python", source, kind)
