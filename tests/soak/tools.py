"""The tools that a soak calls, and the kinds of calls that it mixes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FAULT_CODES", "KINDS", "Kind", "write_tools"]

ANY_OBJECT = {"type": "object", "additionalProperties": True}
ACTION = {
    "type": "object",
    "properties": {"action": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["action"],
    "additionalProperties": False,
}
EFFECTS = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "object"}}},
    "required": ["files"],
}
RESULT_BYTES = 4 * 1024 * 1024

_JS_HANDLER = """
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
export async function handler(args, context) {
  switch (args.action) {
    case 'ok': return text('x'.repeat(args.n ?? 10));
    case 'json': return { content: [{ type: 'json', value: Array(200).fill({ a: [1, 'b'] }) }] };
    case 'big': return text('y'.repeat(1 << 20));
    case 'too_large': return text('y'.repeat(5 << 20));
    case 'wait': return await new Promise((done) => setTimeout(() => done(text('ok')), 3));
    case 'throw': throw new Error('no', { cause: new TypeError('why') });
    case 'error': return { isError: true, code: 'mine', ...text('no') };
    case 'bad': return 5;
    case 'hang': return await new Promise(() => {});
    case 'polite':
      return await new Promise((done) => {
        context.signal.addEventListener('abort', () => done(text('aborted')));
      });
    case 'spin': for (;;);
    case 'exit': process.exit(3);
    case 'die': process.kill(process.pid, 'SIGKILL'); await new Promise(() => {});
    case 'flood': for (let i = 0; i < 3000; i++) console.log('z'.repeat(100)); return text('ok');
    case 'leave': setInterval(() => {}, 1000); return text('left');
    case 'write': {
      const fs = await import('node:fs');
      fs.writeFileSync(process.env.HOME + '/scratch', 'x'.repeat(10000));
      return text('ok');
    }
  }
}
"""
_JS_DESCRIPTORS = """
import path from 'node:path';
export function validateArgs(args) { return args.action === 'refuse' ? 'no' : undefined; }
export function describeEffects(args, { cwd }) {
  if (args.action === 'effects_throw') throw new Error('no');
  if (args.action === 'effects_loop') for (;;);
  if (args.action === 'effects_lie') return { files: 5 };
  return { files: [{ path: path.join(cwd, 'a'), operation: 'write' }] };
}
"""
_PY_HANDLER = """
import os
import sys
import threading
import time


def text(value):
    return {"content": [{"type": "text", "text": str(value)}]}


def handler(args, context):
    action = args["action"]
    if action == "ok":
        return text("x" * args.get("n", 10))
    if action == "json":
        return {"content": [{"type": "json", "value": [{"a": [1, "b"]}] * 200}]}
    if action == "big":
        return text("y" * (1 << 20))
    if action == "too_large":
        return text("y" * (5 << 20))
    if action == "wait":
        time.sleep(0.003)
        return text("ok")
    if action == "throw":
        try:
            raise TypeError("why")
        except TypeError as exc:
            raise ValueError("no") from exc
    if action == "error":
        return {"isError": True, "code": "mine", **text("no")}
    if action == "bad":
        return {1, 2}
    if action == "hang":
        time.sleep(3600)
    if action == "polite":
        context.signal.wait(3600)
        return text("aborted")
    if action == "spin":
        while True:
            pass
    if action == "exit":
        os._exit(3)
    if action == "die":
        os.kill(os.getpid(), 9)
    if action == "flood":
        for _ in range(3000):
            print("z" * 100)
        return text("ok")
    if action == "leave":
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        return text("left")
    if action == "write":
        with open(os.path.join(os.environ["HOME"], "scratch"), "w") as file:
            file.write("x" * 10000)
        return text("ok")
    if action == "spawn":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(0)
        return text("ok")
"""
_PY_DESCRIPTORS = """

def validate_args(args):
    return "no" if args["action"] == "refuse" else None


def describe_effects(args, options):
    if args["action"] == "effects_throw":
        raise ValueError("no")
    if args["action"] == "effects_loop":
        while True:
            pass
    if args["action"] == "effects_lie":
        return {"files": 5}
    return {"files": [{"path": options["cwd"] + "/a", "operation": "write"}]}
"""


@dataclass(frozen=True)
class Kind:
    """One kind of call.

    Args:
        tool: Model-visible name.
        arguments: Of the call.
        weight: How often, relative to the others.
        codes: Outcome codes that it may have when nothing else goes wrong.
        abort_ms: Give the call up after at most so long.
        costly: Ends a worker, so a share of it is not scaled with the number of calls.
    """

    tool: str
    arguments: Any
    weight: float
    codes: tuple[str | None, ...]
    abort_ms: float | None = None
    costly: bool = False


FAULT_CODES = frozenset(("worker_crashed", "timeout", "effects_failed"))
"""What any call may end in while workers and launchers are killed under it, or the machine is
so busy that a limit of this soak is reached."""


def _kinds() -> list[Kind]:
    out: list[Kind] = []
    for tool in ("js", "py"):
        out += [
            Kind(tool, {"action": "ok"}, 300, (None,)),
            Kind(tool, {"action": "ok", "n": 20_000}, 30, (None,)),
            Kind(tool, {"action": "json"}, 30, (None,)),
            Kind(tool, {"action": "wait"}, 20, (None,)),
            Kind(tool, {"action": "write"}, 20, (None,)),
            Kind(tool, {"action": "big"}, 4, (None,)),
            Kind(tool, {"action": "error"}, 30, ("mine",)),
            Kind(tool, {"action": "throw"}, 20, ("handler_error",)),
            Kind(tool, {"action": "bad"}, 20, ("invalid_result",)),
            Kind(tool, {"action": 5}, 20, ("invalid_arguments",)),
            Kind(tool, {"action": "too_large"}, 0.3, ("output_limit", "invalid_result")),
            Kind(tool, {"action": "ok"}, 4, (None,), abort_ms=1, costly=True),
            Kind(tool, {"action": "hang"}, 1, ("timeout",), abort_ms=30, costly=True),
            Kind(tool, {"action": "polite"}, 1, ("timeout",), abort_ms=30, costly=True),
            Kind(tool, {"action": "polite"}, 0.5, ("timeout", None), costly=True),
            Kind(tool, {"action": "hang"}, 0.5, ("timeout",), costly=True),
            Kind(tool, {"action": "spin"}, 0.5, ("timeout",), costly=True),
            Kind(tool, {"action": "exit"}, 1, ("worker_crashed",), costly=True),
            Kind(tool, {"action": "die"}, 1, ("worker_crashed",), costly=True),
            Kind(tool, {"action": "leave"}, 1, (None,), costly=True),
            Kind(tool, {"action": "flood"}, 0.5, ("output_limit", None), costly=True),
        ]
    for tool in ("jsd", "pyd"):
        weight = 60 if tool == "jsd" else 10
        out += [
            Kind(tool, {"action": "ok"}, weight, (None,)),
            Kind(tool, {"action": "refuse"}, weight / 2, ("invalid_arguments",)),
            Kind(tool, {"action": "effects_throw"}, weight / 6, ("effects_failed",)),
            Kind(tool, {"action": "effects_lie"}, weight / 6, ("invalid_effects",)),
            Kind(tool, {"action": "effects_loop"}, 0.5, ("effects_failed",), costly=True),
        ]
    return [
        *out,
        Kind("asks", {"action": "ok", "n": 1}, 20, (None,)),
        Kind("asks", {"action": "ok", "n": 0}, 20, ("approval_denied",)),
        Kind("denied", {"action": "ok"}, 20, ("tool_denied",)),
        Kind("nothing", {}, 20, ("unknown_tool",)),
        Kind("fresh", {"action": "ok"}, 1, (None,), costly=True),
        Kind("spawns", {"action": "spawn"}, 1, (None,), costly=True),
        Kind("broken", {}, 1, ("handler_error", "worker_crashed"), costly=True),
    ]


KINDS = _kinds()


def write_tools(root: Path) -> Path:
    """Write all tools and a configuration that selects them; return the configuration."""
    _write(root, "js", _JS_HANDLER)
    _write(root, "jsd", _JS_DESCRIPTORS + _JS_HANDLER, effects_schema=EFFECTS)
    _write(root, "asks", _JS_HANDLER)
    _write(root, "denied", _JS_HANDLER)
    _write(root, "broken", "throw new Error('at import');", schema=ANY_OBJECT)
    _write(root, "py", _PY_HANDLER, language="python")
    _write(root, "pyd", _PY_HANDLER + _PY_DESCRIPTORS, language="python", effects_schema=EFFECTS)
    _write(root, "fresh", _PY_HANDLER, language="python")
    _write(root, "spawns", _PY_HANDLER, language="python")
    names = ("js", "jsd", "asks", "denied", "broken", "py", "pyd", "fresh", "spawns")
    document = {
        "default_agent": "a",
        "agents": {
            "a": {
                "tools": {
                    "use": [f"agent/{name}" for name in names],
                    "rules": [
                        {"match": "agent/denied", "effect": "deny"},
                        {"match": "agent/asks", "effect": "ask"},
                    ],
                }
            }
        },
        "sandbox": {
            "profiles": {"alone": {"extends": "workspace", "isolation": "fresh"}},
            "tools": {"agent/fresh": "alone", "agent/spawns": "shell"},
        },
        "limits": {
            "call_ms": 400,
            "load_ms": 10_000,
            "grace_ms": 50,
            "descriptor_ms": 100,
            "idle_ms": 1_000,
            "max_workers": 12,
            "result_bytes": RESULT_BYTES,
        },
    }
    path = root / "config.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def _write(
    root: Path,
    name: str,
    source: str,
    *,
    language: str = "esm",
    schema: dict[str, Any] = ACTION,
    **fields: Any,
) -> None:
    folder = root / "tools" / name
    folder.mkdir(parents=True)
    entry = "index.mjs" if language == "esm" else "index.py"
    manifest = {
        "api_version": 2,
        "id": name,
        "version": "1.0.0",
        "name": name,
        "description": f"{name}, for a soak. Example call: {{}}",
        "input_schema": schema,
        "entry": f"./{entry}",
        **fields,
    }
    (folder / "tool.json").write_text(json.dumps(manifest))
    (folder / entry).write_text(source)
