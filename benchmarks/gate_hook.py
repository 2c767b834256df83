"""What a gate hook adds to a call: the start of its executable, and what we put on top."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from raw_exec import Runtime
from raw_exec.hooks import hook_plan
from raw_exec.pool.oneshot import find_program, run_program

from .claims import Bench, BenchmarkFailed, Claim
from .host import node_path
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section
from .workspace import ARGUMENTS, ECHO, Workspace, call_tool, open_bench_runtime, write_workspace

BASE = "its executable alone, node, no sandbox"
SHELL_ALONE = "its executable alone, sh, no sandbox"
NODE_BOXED = "its executable alone, node, in the same sandbox"
SHELL_BOXED = "its executable alone, sh, in the same sandbox"
WITHOUT = "raw_exec, a warm call without hooks"
WITH_NODE = "raw_exec, the same with a gate in node"
WITH_SHELL = "raw_exec, the same with a gate in sh"

_MODULE = """\
let input = "";
for await (const part of process.stdin) input += part;
JSON.parse(input);
process.stdout.write('{"decision":"continue"}');
"""
_SHELL = '#!/bin/sh\nread -r told\necho \'{"decision":"continue"}\'\n'


def _add_hook(space: Workspace, name: str, file: str, text: str, command: list[str]) -> None:
    home = space.config.parent
    folder = home / "hooks" / name
    folder.mkdir(parents=True)
    (folder / file).write_text(text, "utf-8")
    (folder / file).chmod(0o755)
    manifest = {
        "protocol_version": 2,
        "name": name,
        "events": [{"name": "PreToolUse"}],
        "command": command[0],
        "args": command[1:],
    }
    (folder / "hook.json").write_text(json.dumps(manifest), "utf-8")
    config = json.loads(space.config.read_text("utf-8"))
    config["agents"]["bench"]["hooks"] = {"use": [f"agent/{name}"]}
    space.config.write_text(json.dumps(config), "utf-8")


def _alone(argv: list[str], told: bytes) -> Callable[[], Awaitable[object]]:
    async def run() -> None:
        done = await trio.run_process(argv, stdin=told, capture_stdout=True, env={})
        if b"continue" not in done.stdout:
            raise BenchmarkFailed(f"{argv[0]} printed {done.stdout!r:.100}")

    return run


def _boxed(runtime: Runtime, cwd: Path, command: str, args: list[str], told: bytes) -> Round:
    """Start the same executable in the same sandbox, without all that makes it a hook."""
    directory = str(cwd.resolve())
    plan = hook_plan(runtime.config, "agent/gate", cwd=directory)
    folder = runtime.config.directory / "hooks" / "gate"
    program = find_program(command, args, directory=folder)

    async def run() -> None:
        outcome = await run_program(
            runtime.launcher,
            argv=program.argv,
            env=program.env,
            cwd=directory,
            plan=plan,
            files=program.files,
            stdin=told,
            timeout_ms=5000,
            max_output_bytes=65536,
        )
        if b"continue" not in outcome.stdout:
            raise BenchmarkFailed(f"{command} printed {outcome.stdout!r:.100}")

    return timed(run)


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    plain = write_workspace(bench, "gate-none", {"plain": ECHO})
    node = write_workspace(bench, "gate-node", {"plain": ECHO})
    shell = write_workspace(bench, "gate-sh", {"plain": ECHO})
    _add_hook(node, "gate", "index.mjs", _MODULE, ["node", "./index.mjs"])
    _add_hook(shell, "gate", "gate", _SHELL, ["./gate"])
    told = json.dumps({"protocol_version": 2, "tool": {"arguments": dict(ARGUMENTS)}}).encode()
    script = node.config.parent / "hooks" / "gate" / "index.mjs"
    gate = shell.config.parent / "hooks" / "gate" / "gate"
    async with (
        open_bench_runtime(bench, plain) as without,
        open_bench_runtime(bench, node) as with_node,
        open_bench_runtime(bench, shell) as with_shell,
    ):
        await interleave_into(
            section,
            [
                Contestant(BASE, timed(_alone([node_path(), str(script)], told + b"\n"))),
                Contestant(SHELL_ALONE, timed(_alone([str(Path("/bin/sh")), str(gate)], told))),
                Contestant(
                    NODE_BOXED, _boxed(with_node, node.cwd, "node", [str(script)], told + b"\n")
                ),
                Contestant(SHELL_BOXED, _boxed(with_shell, shell.cwd, "./gate", [], told + b"\n")),
                Contestant(WITHOUT, timed(lambda: call_tool(without, "plain", ARGUMENTS))),
                Contestant(WITH_NODE, timed(lambda: call_tool(with_node, "plain", ARGUMENTS))),
                Contestant(WITH_SHELL, timed(lambda: call_tool(with_shell, "plain", ARGUMENTS))),
            ],
            rounds=bench.round_count(40, 8),
            calls=bench.size(3, 2),
            warm_up=2,
            scale=1e3,
        )
        (receipt,) = (await call_tool(with_node, "plain", ARGUMENTS)).hooks
        section.facts["outcome"] = receipt.outcome
    section.notes.append(
        "a gate runs in a process of its own, sandboxed, from its snapshot; a hook that does "
        "not match costs nothing that can be seen here"
    )


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    goals = []
    for language, name, alone in (("node", WITH_NODE, NODE_BOXED), ("sh", WITH_SHELL, SHELL_BOXED)):
        added, start = section.difference(name, WITHOUT), section.row(alone)
        goals.append(
            Goal(
                f"a gate in {language} adds, beside the start of its executable in its sandbox",
                5.0,
                None if added is None or start is None else added - start.p50,
                "ms",
                note=section.missing(name, WITHOUT, alone),
            )
        )
    return goals


CLAIM = Claim("hook", "A gate hook", "ms", BASE, run, judge)
