"""The bare echo: frames to a small Node program and back, with nothing in between."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import msgpack
import trio

from .claims import BenchmarkFailed
from .host import clean_environment, node_path

__all__ = ["EchoProcess"]

_PROGRAM = Path(__file__).parent / "peers" / "echo.cjs"
_READ_BYTES = 256 * 1024
_LENGTH = struct.Struct(">I")


class EchoProcess:
    """A Node process that echoes, over two pipes.

    The supervisor's side is the fastest known: write, one checkpoint, read, and wait for
    readability only when the read would block.

    Args:
        raw: Bodies come back as they are; else they are msgpack maps for an async handler.
        pipe_bytes: Size asked for both pipes; 0 keeps the system's.
    """

    def __init__(self, *, raw: bool = False, pipe_bytes: int = 0) -> None:
        theirs_in, self._write_fd = os.pipe2(os.O_CLOEXEC)
        self._read_fd, theirs_out = os.pipe2(os.O_CLOEXEC)
        if pipe_bytes:
            for fd in (self._write_fd, self._read_fd):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, pipe_bytes)
        for fd in (self._write_fd, self._read_fd):
            os.set_blocking(fd, False)
        program = [node_path(), str(_PROGRAM), "raw" if raw else "msgpack"]
        try:
            self._process = subprocess.Popen(
                [*program, str(theirs_in), str(theirs_out)],
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs_in, theirs_out),
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._last_id = 0

    def __enter__(self) -> EchoProcess:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def close(self) -> None:
        """Close the pipes, which ends the process, and reap it."""
        for fd in (self._write_fd, self._read_fd):
            os.close(fd)
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def call(self, arguments: Any) -> Any:
        """Call the program's handler and return its value."""
        self._last_id += 1
        request = {"id": self._last_id, "args": arguments}
        answer = msgpack.unpackb(await self.exchange(msgpack.packb(request)))
        if answer["id"] != self._last_id:
            raise BenchmarkFailed("the echo answered another call")
        return answer["value"]

    async def exchange(self, body: bytes) -> bytes:
        """Send one body and return the one that comes back."""
        await self._write(_LENGTH.pack(len(body)) + body)
        await trio.lowlevel.checkpoint()
        data = await self._read()
        while len(data) < 4:
            data += await self._read()
        missing = _LENGTH.unpack_from(data)[0] + 4 - len(data)
        if not missing:
            return data[4:]
        parts = [data]
        while missing > 0:
            data = await self._read()
            missing -= len(data)
            parts.append(data)
        return b"".join(parts)[4:]

    async def _write(self, data: bytes) -> None:
        sent = 0
        view = memoryview(data)
        while sent < len(data):
            try:
                sent += os.write(self._write_fd, view[sent:])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._write_fd)

    async def _read(self) -> bytes:
        while True:
            try:
                data = os.read(self._read_fd, _READ_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._read_fd)
                continue
            if not data:
                raise BenchmarkFailed("the echo process ended")
            return data
