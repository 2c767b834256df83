"""A service on a free port of loopback, its tools, and nothing left at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.adapters.http import Hosting, KeyFile, KeyRing, ServiceLimits, serve_http
from raw_exec.serving import open_listener
from toolbox import footprint, write_config, write_tool

from .client import Client, connected

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
ECHO = """
def handler(args, context):
    return {"content": [{"type": "text", "text": args["text"]}]}
"""
WHO = """
import os


def handler(args, context):
    here = f"{os.getppid()} {context.cwd}"
    return {"content": [{"type": "text", "text": f"{os.stat('/proc/self').st_ino} {here}"}]}
"""
WAIT = """
import os


def handler(args, context):
    with open(os.path.join(context.cwd, "started-" + args["name"]), "w") as file:
        file.write(str(os.getpid()))
    context.signal.wait()
    while True:  # what it was asked for does not count: it has to be killed
        pass
"""
GATE = """
import os
import time


def handler(args, context):
    path = os.path.join(context.cwd, "gate")
    while not os.path.exists(path):
        time.sleep(0.005)
    return {"content": [{"type": "text", "text": "through"}]}
"""
PANEL = """
def handler(args, context):
    for done in range(args["steps"] + 1):
        text = {"id": "b", "kind": "markdown", "text": "x" * args.get("size", 1)}
        progress = {"done": done, "total": args["steps"]}
        document = {"progress": progress, "blocks": [text]}
        context.panels.update("work", {"op": "replace", "document": document})
    return {"content": [{"type": "text", "text": "finished"}]}
"""
ASK = """
def handler(args, context):
    field = {"id": "why", "kind": "text", "label": "Why?"}
    form = {"id": "f", "kind": "form", "fields": [field]}
    try:
        answer = context.interactions.request({"panel": "work", "document": {"blocks": [form]}})
    except Exception as exc:
        text = [{"type": "text", "text": str(exc)}]
        return {"content": text, "isError": True, "code": exc.code}
    return {"content": [{"type": "json", "value": answer}]}
"""
BIG = """
import base64
import struct
import zlib


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def handler(args, context):
    content = [{"type": "text", "text": "A" * args["text"]}]
    if args.get("image"):
        header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
        image = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header)
        image += chunk(b"tEXt", b"note\\0" + b"A" * args["image"])
        image += chunk(b"IDAT", zlib.compress(b"\\0\\0")) + chunk(b"IEND", b"")
        data = base64.b64encode(image).decode()
        content.append({"type": "image", "mimeType": "image/png", "data": data})
    return {"content": content}
"""
PANELS = [{"id": "work", "title": "Work"}]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one cache for all tests, so that the engine is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    """Compare descriptors, children and private directories with those of the start."""
    before = footprint()
    yield
    assert footprint() == before


@dataclass
class Served:
    """A running service."""

    port: int
    stop: trio.Event
    cwd: Path
    token: str | None = None

    def connect(self, token: str | None = None) -> AbstractAsyncContextManager[Client]:
        """Open a connection."""
        return connected(self.port, token or self.token)


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., raw_exec.Config]:
    """Write tools by name, and return the loaded configuration."""

    def made(*names: str, **fields: Any) -> raw_exec.Config:
        sources = {
            "echo": (ECHO, {"schema": TEXT}),
            "who": (WHO, {}),
            "wait": (WAIT, {}),
            "gate": (GATE, {}),
            "panel": (PANEL, {"panels": PANELS}),
            "ask": (ASK, {"panels": PANELS}),
            "big": (BIG, {}),
        }
        for name in names:
            source, more = sources[name]
            write_tool(tmp_path, name, source, language="python", **more)
        limits = {"grace_ms": 50, **fields.pop("limits", {})}
        return raw_exec.load_config(write_config(tmp_path, names, limits=limits, **fields))

    return made


@pytest.fixture
def serve(tmp_path: Path, cache: Path) -> Serve:
    """Run a service while a block runs; at its end, what is under way is aborted."""

    @asynccontextmanager
    async def running(
        config: raw_exec.Config,
        *,
        keys: KeyFile | None = None,
        token: str | None = None,
        limits: dict[str, Any] | None = None,
        **fields: Any,
    ) -> AsyncIterator[Served]:
        cwd = tmp_path / "cwd"
        cwd.mkdir(exist_ok=True)
        ring = None if keys is None else KeyRing(keys)
        hosting = Hosting(
            config,
            cwd=str(cwd),
            ring=ring,
            whose=None if ring is None else ring.whose,
            limits=ServiceLimits(**{"drain_seconds": 0.0, **(limits or {})}),
            cache_dir=str(cache),
            **fields,
        )
        listener = open_listener("127.0.0.1", 0)
        served = Served(listener.getsockname()[1], trio.Event(), cwd, token)
        ready = trio.Event()
        with trio.fail_after(100):
            async with trio.open_nursery() as nursery:
                run = partial(serve_http, hosting, listener, stop=served.stop, on_ready=ready.set)
                nursery.start_soon(run)
                await ready.wait()
                yield served
                served.stop.set()

    return running


async def started(cwd: Path, name: str) -> int:
    """Return the process ID of a handler of ``wait`` once it runs."""
    path = cwd / f"started-{name}"
    while not (path.exists() and path.read_text()):
        await trio.sleep(0.005)
    return int(path.read_text())
