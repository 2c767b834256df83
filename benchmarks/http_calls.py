"""Calls per second through ``raw serve``, at 8 and at 64 connections.

The base is a server that answers at once with as many bytes, on the same HTTP stack and
started the same way: what is above it is ours. The client is one process with one socket for
each connection, and takes a good part of what is measured in every row.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, Round, interleave_into
from .report import Goal, Section
from .workspace import ARGUMENTS, ECHO, call_tool, open_bench_runtime, write_workspace

CONNECTIONS = (8, 64)
BASE = "the HTTP stack alone, 8 connections"
STACK_64 = "the HTTP stack alone, 64 connections"
OURS_8 = "raw serve, 8 connections"
OURS_64 = "raw serve, 64 connections"
INSIDE = "the same calls without HTTP, 8 callers"

_ROOT = Path(__file__).parent.parent
_READ_BYTES = 65536


class _Connection:
    """One connection that sends the same request again and again."""

    def __init__(self, stream: trio.SocketStream, request: bytes) -> None:
        self._stream = stream
        self._request = request

    async def call(self) -> None:
        """Send the request and read its answer.

        Raises:
            BenchmarkFailed: The answer is not a good outcome.
        """
        await self._stream.send_all(self._request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await self._more()
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += await self._more()
        if not head.startswith(b"HTTP/1.1 200 ") or b'"is_error":false' not in body:
            raise BenchmarkFailed(f"answered with {head[:60]!r} {body[:200]!r}")

    async def _more(self) -> bytes:
        data = await self._stream.receive_some(_READ_BYTES)
        if not data:
            raise BenchmarkFailed("the server closed a connection")
        return bytes(data)

    async def aclose(self) -> None:
        """Close the connection."""
        await trio.aclose_forcefully(self._stream)


def _request(port: int) -> bytes:
    body = json.dumps({"name": "plain", "arguments": dict(ARGUMENTS)}).encode()
    head = (
        f"POST /v1/call HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def _server(command: Sequence[str]) -> AsyncIterator[int]:
    """Run a server that prints its address, and yield the port."""
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, list(command), stdout=-1, check=False, cwd=_ROOT)
        process = await nursery.start(start)
        try:
            line = b""
            while not line.endswith(b"\n"):
                more = await process.stdout.receive_some(1000)
                if not more:
                    raise BenchmarkFailed(f"{command[1:4]} did not start")
                line += more
            yield int(line.decode().strip().rpartition(":")[2])
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await process.wait()
        nursery.cancel_scope.cancel()


def _crowd(connections: Sequence[_Connection]) -> Round:
    """Let every connection send the same number of requests; one sample: calls per second."""

    async def one(connection: _Connection, calls: int) -> None:
        for _ in range(calls):
            await connection.call()

    async def run(calls: int) -> list[float]:
        each = max(1, calls // len(connections))
        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for connection in connections:
                nursery.start_soon(one, connection, each)
        return [each * len(connections) / (time.perf_counter() - begin)]

    return run


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "http_calls", {"plain": ECHO})
    python = sys.executable
    serve = (
        *(python, "-m", "raw_exec", "-q", "--config", str(space.config), "serve"),
        *("--http", "0", "--no-auth", "--cwd", str(space.cwd), "--max-calls", "8"),
    )
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(open_bench_runtime(bench, space))
        ours = await stack.enter_async_context(_server(serve))
        bare = await stack.enter_async_context(_server((python, "-m", __name__)))

        async def opened(port: int, count: int) -> Round:
            connections = []
            for _ in range(count):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                connections.append(_Connection(stream, _request(port)))
                stack.push_async_callback(connections[-1].aclose)
            return _crowd(connections)

        await interleave_into(
            section,
            [
                Contestant(BASE, await opened(bare, CONNECTIONS[0])),
                Contestant(OURS_8, await opened(ours, CONNECTIONS[0])),
                Contestant(STACK_64, await opened(bare, CONNECTIONS[1])),
                Contestant(OURS_64, await opened(ours, CONNECTIONS[1])),
                Contestant(INSIDE, _inside(lambda: call_tool(runtime, "plain", ARGUMENTS))),
            ],
            rounds=bench.round_count(16, 4),
            calls=bench.size(320, 128),
            warm_up=128,
            higher_is_better=True,
        )
    section.notes.append("more is better; 8 calls run at a time, the others wait their turn")


def _inside(call: object) -> Round:
    async def one(calls: int) -> None:
        for _ in range(calls):
            await call()  # type: ignore[operator]

    async def run(calls: int) -> list[float]:
        each = max(1, calls // CONNECTIONS[0])
        begin = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS[0]):
                nursery.start_soon(one, each)
        return [each * CONNECTIONS[0] / (time.perf_counter() - begin)]

    return run


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    return [
        Goal(
            "raw serve at 8 connections, vs its HTTP stack alone",
            0.3,
            section.ratio(OURS_8),
            at_least=True,
            note=section.missing(OURS_8, BASE),
        ),
        Goal(
            "raw serve at 64 connections, vs at 8",
            0.8,
            section.ratio(OURS_64, OURS_8),
            at_least=True,
            note=section.missing(OURS_64, OURS_8),
        ),
    ]


def _serve_bare() -> None:
    """Answer every request with an outcome that was worked out long ago."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from raw_exec.serving import open_listener, run_server, url_of

    body = json.dumps({"is_error": False, "filler": "x" * 500}, separators=(",", ":")).encode()

    async def answer(request: Request) -> Response:
        json.loads(await request.body())
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/call", answer, methods=["POST"])])
    with open_listener("127.0.0.1", 0) as listener:
        url = url_of(listener)
        run_server(app, listener, on_ready=lambda: print(url, flush=True))


CLAIM = Claim("http_calls", "Calls over HTTP", "calls/s", BASE, run, judge)

if __name__ == "__main__":
    _serve_bare()
