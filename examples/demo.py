"""A short show: an honest tool, a rule, a hostile tool and a liar. Run it with ``make demo``."""

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
    for name in ("append_notes", "hostile", "lying_notes"):
        shutil.copytree(TOOLS / name, home / "tools" / name)
    rule = {
        "match": "agent/append_notes",
        "effect": "ask",
        "when": {"source": "effects", "any": "files[*].path", "regex": "/protected/"},
    }
    names = ["agent/append_notes", "agent/hostile", "agent/lying_notes"]
    tools = {"use": names, "rules": [rule]}
    sandbox = {
        "profiles": {"held": {"extends": "workspace", "effects": "enforced"}},
        "tools": {"agent/lying_notes": "held"},
    }
    path = home / "config.json"
    agents = {"demo": {"tools": tools}}
    path.write_text(json.dumps({"default_agent": "demo", "agents": agents, "sandbox": sandbox}))
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

        heading("5. A tool that declares one file and writes two")
        failures += await catch_the_liar(runtime, work)

        heading("6. And the next call works")
        result = await dispatch("append_notes", {"path": "notes.txt", "text": "second\n"})
        show_outcome(result)
        failures += result.is_error
    print()
    return failures


async def catch_the_liar(runtime: raw_exec.Runtime, work: Path) -> int:
    """Call a tool under ``effects: enforced``; return how much went wrong."""
    note, hidden = work / "mine.txt", work / ".profile"
    note.write_text("before\n")
    lie = {"path": note.name, "text": "after\n"}
    show_call("lying_notes", lie)
    result = await runtime.dispatch("lying_notes", lie)
    show_outcome(result)
    untouched = note.read_text() == "before\n" and not hidden.exists()
    print(f"  on disk   {note.name}: {note.read_text()!r}; {hidden.name} exists: {hidden.exists()}")
    if result.code == "sandbox_unavailable":
        print("  verdict   NOT SHOWN: this host has no copy-on-write view, so the call was not run")
        return 0 if untouched else 1
    print(f"  verdict   {'nothing was committed' if untouched else 'FILES WERE CHANGED'}\n")
    failures = int(result.code != "undeclared_effects" or not untouched)

    truth = {**lie, "honest": True}
    show_call("lying_notes", truth)
    result = await runtime.dispatch("lying_notes", truth)
    show_outcome(result)
    print(f"  on disk   {note.name}: {note.read_text()!r}; {hidden.name} exists: {hidden.exists()}")
    return failures + (result.is_error or note.read_text() != "after\n" or hidden.exists())


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="raw-demo-") as home:
        return min(1, trio.run(run, Path(home).resolve()))


if __name__ == "__main__":
    sys.exit(main())
