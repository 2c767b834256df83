"""Hook folders, configurations that select them, and a service to run them with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import raw_exec
from raw_exec.dispatch import Call
from raw_exec.hooks import HookReceipt, HookService, load_hooks
from raw_exec.pool import open_launcher
from raw_exec.private_root import open_private_root
from raw_exec.tools import ToolRegistry, load_registry
from toolbox import write_config, write_tool

PYTHON = os.path.realpath(sys.executable)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}
HANDLER = "def handler(args, context):\n    return {'content': [{'type': 'text', 'text': 'ran'}]}\n"
DENY = """import json; print(json.dumps({"decision": "deny", "reason": "no"}))"""
CONTINUE = """print('{"decision":"continue"}')"""
ECHO = """import json, sys; told = json.load(sys.stdin)
print(json.dumps({"decision": "continue", "message": json.dumps(told, sort_keys=True)}))"""
PRE: list[dict[str, Any]] = [{"name": "PreToolUse"}]


def write_hook(
    root: Path,
    name: str,
    source: str,
    events: list[dict[str, Any]] | None = None,
    **fields: Any,
) -> str:
    """Write ``root/hooks/<name>/`` with a Python program; return its selection ID."""
    folder = root / "hooks" / name
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "protocol_version": 2,
        "name": name,
        "events": PRE if events is None else events,
        "command": os.path.basename(PYTHON),
        "args": ["-I", "-S", "./hook.py"],
        **fields,
    }
    (folder / "hook.json").write_text(json.dumps(manifest))
    (folder / "hook.py").write_text(source)
    return f"agent/{name}"


def configure(
    root: Path,
    hooks: Iterable[str],
    *,
    handler: str = HANDLER,
    tool: dict[str, Any] | None = None,
    **extra: Any,
) -> raw_exec.Config:
    """Write one Python tool ``t`` and a configuration that selects hooks; load it."""
    fields = {"schema": SCHEMA, "condition_sources": ["arguments"], **(tool or {})}
    write_tool(root, "t", handler, language="python", **fields)
    agent = {"hooks": {"use": list(hooks)}, **extra.pop("agent", {})}
    return raw_exec.load_config(write_config(root, ["t"], agent=agent, **extra))


class Hooks:
    """A service, the tools it was bound to, and every receipt it gave."""

    def __init__(self, service: HookService, registry: ToolRegistry, cwd: Path) -> None:
        self.service = service
        self.registry = registry
        self.cwd = cwd
        self.receipts: list[HookReceipt] = []
        service.on_receipt = self.receipts.append

    def call(self, arguments: Any = None, **fields: Any) -> Call:
        """Return a call of ``t`` as it is when hooks see it."""
        return Call(
            name="t",
            raw_arguments=arguments or {},
            cwd=str(self.cwd),
            max_output_bytes=8192,
            tool_call_id="call_1",
            source="model",
            call_ms=1000,
            tool=self.registry.get("t"),
            arguments=arguments or {},
            **fields,
        )

    async def pre(self, arguments: Any = None, **fields: Any) -> raw_exec.RawExecError | None:
        """Return the refusal of a call, if hooks refuse it."""
        try:
            await self.service.pre_tool(self.call(arguments, **fields))
        except raw_exec.RawExecError as exc:
            return exc
        return None


@asynccontextmanager
async def opened(
    config: raw_exec.Config, cwd: Path, *, simulate: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[Hooks]:
    """Open the hooks of a configuration, with a launcher that starts when needed."""
    with open_private_root() as root:
        async with open_launcher(scratch_parent=root, simulate=simulate) as launcher:
            registry = load_registry(config)
            store = root / "snapshots"
            loaded = load_hooks(config, registry.tools, store=store)
            service = HookService(config, loaded, launcher, store=store, cwd=str(cwd), **options)
            yield Hooks(service, registry, cwd)


def facts(receipt: HookReceipt) -> tuple[str, str, str, str | None, str | None]:
    """Return what of a receipt is the same every time."""
    return receipt.hook, receipt.event, receipt.outcome, receipt.error, receipt.message
