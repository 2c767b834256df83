"""A short show: one honest tool, one rule, one hostile tool. Run it with ``make demo``."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
import textwrap
from pathlib import Path

import trio

import raw_exec
from raw_exec.approval import Answer, ApprovalRequest, render_request

TOOLS = Path(__file__).parent / "tools"
WIDTH = 78


def heading(text: str) -> None:
    print(f"\n── {text} {'─' * max(0, WIDTH - len(text) - 4)}")


def show_call(name: str, arguments: dict[str, str]) -> None:
    print(f"  call      {name} {json.dumps(arguments)}")


def show_outcome(result: raw_exec.ToolResult) -> None:
    word = "refused" if result.is_error and not result.enforced else "outcome"
    print(f"  {word:9} code={result.code} stage={result.stage} ({result.elapsed_ms:.1f} ms)")
    for line in textwrap.wrap(result.text.splitlines()[0], WIDTH - 12):
        print(f"            {line}")


def show_enforced(result: raw_exec.ToolResult) -> None:
    on = result.enforced
    if not on:
        print("  enforced  nothing ran")
        return
    parts = [f"tier {on['tier']}", f"Landlock ABI {on['landlock']}"]
    parts += ["seccomp"] if on["seccomp"] else []
    parts += [f"namespaces {'+'.join(on['namespaces'])}"] if on["namespaces"] else []
    parts += [f"cgroup {on['cgroup']}"] if on["cgroup"] else []
    print(f"  enforced  {', '.join(parts)}")


def ask(request: ApprovalRequest) -> Answer:
    print("  the approver is shown:")
    for line in render_request(request).splitlines():
        print(f"  │ {line}")
    print("  │ … and answers no")
    return Answer(allow=False, reason="not that file")


def write_config(home: Path) -> Path:
    for name in ("append_notes", "hostile"):
        shutil.copytree(TOOLS / name, home / "tools" / name)
    rule = {
        "match": "agent/append_notes",
        "effect": "ask",
        "when": {"source": "effects", "any": "files[*].path", "regex": "/protected/"},
    }
    tools = {"use": ["agent/append_notes", "agent/hostile"], "rules": [rule]}
    path = home / "config.json"
    path.write_text(json.dumps({"default_agent": "demo", "agents": {"demo": {"tools": tools}}}))
    path.chmod(0o600)
    return path


async def run(home: Path) -> int:
    work = home / "work"
    work.mkdir()
    secret = home / "secret.txt"
    secret.write_text("the secret\n")
    config = raw_exec.load_config(write_config(home))
    failures = 0

    async with raw_exec.open_runtime(config, cwd=work, approve=ask) as runtime:
        dispatch = runtime.registry.dispatch

        heading("1. A bad note is refused before anything is written")
        bad = {"path": "notes.txt", "text": "first"}
        show_call("append_notes", bad)
        result = await dispatch("append_notes", bad)
        show_outcome(result)
        print(f"  on disk   notes.txt exists: {(work / 'notes.txt').exists()}")
        failures += result.code != "invalid_arguments" or (work / "notes.txt").exists()

        heading("2. A good note is written by a sandboxed worker")
        good = {"path": "notes.txt", "text": "first\n"}
        show_call("append_notes", good)
        result = await dispatch("append_notes", good)
        show_outcome(result)
        show_enforced(result)
        print(f"  on disk   notes.txt: {(work / 'notes.txt').read_text()!r}")
        failures += result.is_error

        heading("3. A rule looks at the intended effects and asks first")
        guarded = {"path": "protected/keys.txt", "text": "mine\n"}
        show_call("append_notes", guarded)
        result = await dispatch("append_notes", guarded)
        show_outcome(result)
        failures += result.code != "approval_denied" or (work / "protected").exists()

        heading("4. A hostile tool: reads a secret, connects, spawns, loops for ever")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            port = str(listener.getsockname()[1])
            for arguments in (
                {"action": "read_secret", "target": str(secret)},
                {"action": "open_socket", "target": port},
                {"action": "spawn"},
                {"action": "loop"},
            ):
                show_call("hostile", arguments)
                result = await dispatch("hostile", arguments, timeout_seconds=1)
                show_outcome(result)
                show_enforced(result)
                ran = bool(result.enforced)
                contained = ran and result.is_error and "it worked" not in result.text
                print(f"  verdict   {'contained' if contained else 'NOT CONTAINED'}\n")
                failures += not contained
            try:
                listener.accept()
            except BlockingIOError:
                print("  listener  saw no connection")
            else:
                print("  listener  SAW A CONNECTION")
                failures += 1

        heading("5. And the next call works")
        result = await dispatch("append_notes", {"path": "notes.txt", "text": "second\n"})
        show_outcome(result)
        failures += result.is_error
    print()
    return failures


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="raw-demo-") as home:
        return min(1, trio.run(run, Path(home).resolve()))


if __name__ == "__main__":
    sys.exit(main())
