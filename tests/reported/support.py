"""Runtimes, tools and processes as a user has them, for the reports of other systems' users."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

import raw_exec
from toolbox import js_config, py_config, write_config

TIERS = [pytest.param((), id="best"), pytest.param(("no-userns", "no-cgroup"), id="baseline")]
"""What to simulate: the best tier of this host, and its weakest."""

PROCESSES: dict[str, Any] = {
    "sandbox": {
        "profiles": {"starts": {"extends": "workspace", "processes": "allowed"}},
        "tools": {"agent/t": "starts"},
    }
}
"""A configuration in which the tool ``t`` may start processes."""

OK = "return {'content': [{'type': 'text', 'text': 'ok'}]}"
JS_OK = "return { content: [{ type: 'text', text: 'ok' }] };"
SECONDS = 60


class Session:
    """A runtime with the built-in shell tools, or with one tool ``t``."""

    def __init__(self, runtime: raw_exec.Runtime, work: Path) -> None:
        self.runtime = runtime
        self.work = work

    async def call(
        self, name: str = "t", args: dict[str, Any] | None = None, **options: Any
    ) -> raw_exec.ToolResult:
        return await self.runtime.registry.dispatch(name, args or {}, **options)

    async def value(self, name: str = "t", args: dict[str, Any] | None = None) -> Any:
        """Call, expect no error, and return the value of the JSON block."""
        result = await self.call(name, args)
        assert not result.is_error, (result.text, result.logs)
        (block,) = result.content
        return block["value"]

    async def bash(self, *commands: str | dict[str, Any]) -> list[dict[str, Any]]:
        """Run commands; return the rows, whatever came of them."""
        items = [{"command": item} if isinstance(item, str) else item for item in commands]
        result = await self.call("bash", {"commands": items})
        (block,) = result.content
        assert block["type"] == "json", result.text
        rows: list[dict[str, Any]] = block["value"]["commands"]
        return rows

    async def appears(self, name: str) -> str:
        """Wait until a file in the working directory has been written; return its text."""
        path = self.work / name
        while not path.exists() or not path.stat().st_size:
            await trio.lowlevel.checkpoint()
        return path.read_text()

    def family(self) -> list[psutil.Process]:
        """Return what lives below the launcher."""
        pid = self.runtime.statistics().launcher_pid
        assert pid is not None
        return psutil.Process(pid).children(recursive=True)

    def named(self, *names: str) -> list[psutil.Process]:
        """Return the processes below the launcher that have one of the names."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name() in names:
                    found.append(process)
        return found


@asynccontextmanager
async def session(
    config: raw_exec.Config, work: Path, simulate: Sequence[str] = ()
) -> AsyncIterator[Session]:
    """Open a runtime for a configuration."""
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=work, simulate=simulate) as runtime:
            yield Session(runtime, work)


@asynccontextmanager
async def shell(root: Path, simulate: Sequence[str] = (), **fields: Any) -> AsyncIterator[Session]:
    """Open a runtime with ``bash`` and ``process`` in ``root/work``."""
    work = root / "work"
    work.mkdir(exist_ok=True)
    path = write_config(root, ["builtin/bash", "builtin/process"], **fields)
    async with session(raw_exec.load_config(path), work, simulate) as opened:
        yield opened


@asynccontextmanager
async def python_tool(
    root: Path, body: str, simulate: Sequence[str] = (), *, before: str = "", **fields: Any
) -> AsyncIterator[Session]:
    """Open a runtime with one Python tool ``t`` in ``root/work``."""
    (root / "work").mkdir(exist_ok=True)
    config = py_config(root, body, before=before, **fields)
    async with session(config, root / "work", simulate) as opened:
        yield opened


@asynccontextmanager
async def node_tool(
    root: Path, body: str, simulate: Sequence[str] = (), *, before: str = "", **fields: Any
) -> AsyncIterator[Session]:
    """Open a runtime with one ES module tool ``t`` in ``root/work``."""
    (root / "work").mkdir(exist_ok=True)
    config = js_config(root, body, before=before, **fields)
    async with session(config, root / "work", simulate) as opened:
        yield opened


async def until(condition: Callable[[], bool]) -> None:
    """Look until a condition about other processes holds; the caller bounds the wait."""
    while not condition():
        await trio.sleep(0.005)


def running(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Return those that are neither gone nor only waiting to be reaped."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def python_command(code: str) -> str:
    """Return a shell command that runs Python code with the system's interpreter."""
    return shlex.join(["python3", "-I", "-S", "-c", code])


def host_command(code: str, *arguments: str) -> list[str]:
    """Return the argument list of a host application of its own, which imports ``raw_exec``."""
    return [sys.executable, "-c", code, *arguments]


def raw_command(*arguments: str) -> list[str]:
    """Return the argument list of ``raw`` as its users run it."""
    return [sys.executable, "-m", "raw_exec", *arguments]
