"""Connections: stopping, clients that never read, and one that breaks the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from raw_exec.errors import ConfigError
from raw_exec.serving import open_listener, serve_app, url_of
from toolbox import footprint

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    """Compare descriptors and children with those of the start."""
    before = footprint()
    yield
    assert footprint() == before


class App:
    """Answers at once, or with more than any socket buffers, or when it is told to."""

    def __init__(self) -> None:
        self.gone = trio.Event()
        self.go = trio.Event()
        self.asked = trio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/wait":
            await self.go.wait()
        elif scope["path"] == "/flood":
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    self.gone.set()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(watch)
                while True:
                    body = {"type": "http.response.body", "body": b"x" * 65536, "more_body": True}
                    await send(body)
        await send({"type": "http.response.body", "body": b"done", "more_body": False})


@asynccontextmanager
async def _serving(app: App, **options: Any) -> AsyncIterator[tuple[int, trio.Event]]:
    listener = open_listener("127.0.0.1", 0)
    port, stop = listener.getsockname()[1], trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve_app, app, listener, stop=stop, **options))
            yield port, stop
            stop.set()


async def _refused(port: int) -> None:
    """Return once nobody listens any more."""
    while True:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            return
        await trio.aclose_forcefully(stream)


async def _read_all(stream: trio.SocketStream) -> bytes:
    out = b""
    while data := await stream.receive_some():
        out += data
    return out


async def test_a_client_that_never_reads_is_cut_off() -> None:
    """Security: writes are bounded in time; the application learns that the client is gone."""
    app = App()
    async with _serving(app, write_seconds=0.1) as (port, _):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
            await app.gone.wait()


async def test_stopping_does_not_wait_for_a_client_that_never_reads() -> None:
    """hypercorn shields its writes: only closing the socket ends one."""
    app = App()
    listener = open_listener("127.0.0.1", 0)
    stream = await trio.open_tcp_stream("127.0.0.1", listener.getsockname()[1])
    stop = trio.Event()
    serve = partial(serve_app, app, listener, stop=stop, write_seconds=600, graceful_seconds=0.1)
    async with stream:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve)
                await stream.send_all(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
                await app.asked.wait()
                await trio.testing.wait_all_tasks_blocked(0.05)
                stop.set()


async def test_stopping_lets_answers_under_way_end_and_takes_no_more() -> None:
    """The paired claim: what is nearly done is finished."""
    app = App()
    async with _serving(app, graceful_seconds=60) as (port, stop):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await app.asked.wait()
            stop.set()
            await _refused(port)
            app.go.set()
            assert b"done" in await _read_all(stream)


async def test_over_the_limit_a_connection_is_sent_away(monkeypatch) -> None:
    """Security: connections are bounded, and those that are there go on."""
    monkeypatch.setattr("raw_exec.serving.connections._MAX_CONNECTIONS", 1)
    app = App()
    async with _serving(app) as (port, _):
        first = await trio.open_tcp_stream("127.0.0.1", port)
        async with first:
            await first.send_all(REQUEST)
            await first.receive_some()
            second = await trio.open_tcp_stream("127.0.0.1", port)
            async with second:
                answer = await _read_all(second)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 100_000 + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        b"\x00\x00\x0c\x01\x05\x00\x00\x00\x01\x82\x86\x04\x05/\xff\xfe\xfd\xfc\x41\x00",
    ],
)
async def test_a_client_that_breaks_the_protocol_ends_its_connection_only(data) -> None:
    """Security: whatever hypercorn raises, the others are served."""
    app = App()
    async with _serving(app) as (port, _):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(data)
            await stream.send_eof()
            try:
                await _read_all(stream)
            except trio.BrokenResourceError:
                pass
        good = await trio.open_tcp_stream("127.0.0.1", port)
        async with good:
            await good.send_all(REQUEST)
            assert (await good.receive_some()).startswith(b"HTTP/1.1 200 ")


def test_an_address_that_can_not_be_used_is_told() -> None:
    """Located and with a hint, whatever is wrong with it."""
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        for host, number in (("127.0.0.1", port), ("no host", 0), ("127.0.0.1", 99999)):
            with pytest.raises(ConfigError) as caught:
                open_listener(host, number)
            assert caught.value.code == "address_unusable"
            assert caught.value.hint
