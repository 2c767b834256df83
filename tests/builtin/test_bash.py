"""bash through an open runtime, with real processes; and its handler alone for aborts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

import raw_exec
from raw_exec.builtin.bash.running.request import find_problem
from toolbox import footprint, write_config

from .calls import value_of

TIERS = [(), ("no-userns",)]
TOKEN = "tok-81c3-never-to-be-seen"
FOLDER = Path(raw_exec.__file__).parent / "builtin" / "bash"


def variable(source: dict[str, Any], access: str = "read") -> dict[str, Any]:
    return {"description": "for a test", "access": access, "source": source}


@asynccontextmanager
async def opened(root: Path, **options: Any) -> AsyncIterator[tuple[raw_exec.Runtime, Path]]:
    """Open a runtime with bash whose working directory is ``root/work``."""
    work = root / "work"
    work.mkdir()
    runtime_options = {name: options.pop(name) for name in ("simulate", "audit") if name in options}
    if "vars" in options:
        options["agent"] = {"vars": list(options["vars"])}
    config = raw_exec.load_config(write_config(root, ["builtin/bash"], **options))
    with trio.fail_after(90):
        async with raw_exec.open_runtime(config, cwd=work, **runtime_options) as runtime:
            yield runtime, work


async def run(
    runtime: raw_exec.Runtime, *commands: str | dict[str, Any], **options: Any
) -> raw_exec.ToolResult:
    items = [{"command": item} if isinstance(item, str) else item for item in commands]
    return await runtime.registry.dispatch("bash", {"commands": items}, **options)


def rows_of(result: raw_exec.ToolResult) -> list[dict[str, Any]]:
    (block,) = result.content
    assert block["type"] == "json", result.text
    rows: list[dict[str, Any]] = block["value"]["commands"]
    return rows


def row(index: int, stdout: str = "", stderr: str = "", **more: Any) -> dict[str, Any]:
    """Return a row without its time."""
    return {
        "index": index,
        "stdout": stdout,
        "stderr": stderr,
        "exit_code": 0,
        "signal": None,
        "timed_out": False,
        "truncated": False,
        **more,
    }


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for item in rows:
        if "elapsed_ms" in item:
            assert item.pop("elapsed_ms") >= 0
    return rows


@pytest.mark.parametrize("simulate", TIERS)
async def test_commands_run_in_order_and_each_has_its_row(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Contract: outputs apart, exit code or signal, a nonzero exit is a normal row."""
    before = footprint()
    async with opened(tmp_path, simulate=simulate) as (runtime, work):
        result = await run(
            runtime,
            "echo out; echo err >&2; exit 3",
            "cat; pwd; echo data > file",
            "cat file; cd /; export A=1",
            'pwd; echo "[$A]"',
            "-x",
            "kill -9 $$",
            "printf 'a\\xff\\0b'",
        )
        assert (result.is_error, result.code) == (False, None)
        dash = rows_of(result)[4]
        assert "command not found" in dash.pop("stderr")
        assert timeless(rows_of(result)) == [
            row(0, "out\n", "err\n", exit_code=3),
            row(1, f"{work}\n"),
            row(2, "data\n"),
            row(3, f"{work}\n[]\n"),
            {name: value for name, value in row(4, exit_code=127).items() if name != "stderr"},
            row(5, exit_code=None, signal="SIGKILL"),
            row(6, "a\ufffd\0b", not_utf8=True),
        ]
        again = await run(runtime, "echo $$")
        assert again.usage["worker"] == "warm"
    assert footprint() == before


async def test_the_environment_is_the_workers_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: nothing is inherited from the host, no descriptor of ours reaches a command."""
    monkeypatch.setenv("A_SECRET", "x")
    async with opened(tmp_path) as (runtime, _):
        result = await run(runtime, "env | cut -d= -f1 | sort", "ls /proc/self/fd | wc -l")
        names, descriptors = (item["stdout"].split() for item in rows_of(result))
        known = {"HOME", "LANG", "PATH", "TEMP", "TMP", "TMPDIR", "PWD", "SHLVL", "_"}
        assert set(names) <= known | {"PYTHONDONTWRITEBYTECODE", "OLDPWD"}
        assert int(descriptors[0]) == 4  # 0, 1, 2, and the one that ls reads with


async def test_at_its_time_limit_a_command_is_ended_and_the_rest_skipped(tmp_path: Path) -> None:
    """Contract: the process group is ended, TERM first; later indices are listed."""
    async with opened(tmp_path) as (runtime, work):
        result = await run(
            runtime,
            "echo first",
            {
                "command": "trap 'echo told; exit 7' TERM; echo up; sleep 999 & wait",
                "timeout_ms": 700,
            },
            "touch ran",
            "touch ran",
        )
        assert (result.is_error, result.code, result.origin) == (True, "timeout", "tool")
        value = result.content[0]["value"]
        ended = value["commands"][1]
        assert ended.pop("ended_background", 0) in (0, 1)
        assert timeless(value["commands"]) == [
            row(0, "first\n"),
            row(1, "up\ntold\n", exit_code=7, timed_out=True),
            {"index": 2, "skipped": "timeout"},
            {"index": 3, "skipped": "timeout"},
        ]
        assert (value["skipped"], list(work.iterdir())) == ([2, 3], [])


async def test_a_command_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    """Contract: TERM, a short grace, KILL."""
    command = {"command": "trap '' TERM; while :; do sleep 0.02; done", "timeout_ms": 300}
    async with opened(tmp_path) as (runtime, _):
        (only,) = rows_of(await run(runtime, command))
        assert (only["timed_out"], only["signal"]) == (True, "SIGKILL")
        assert timeless(rows_of(await run(runtime, "echo up"))) == [row(0, "up\n")]


def below(runtime: raw_exec.Runtime, name: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process(runtime.launcher.pid).children(recursive=True)
        if process.name() == name
    ]


@pytest.mark.parametrize("simulate", TIERS)
@pytest.mark.parametrize(
    "command",
    [
        "sleep 999 & echo up",
        "setsid sleep 999 & echo up",
        "(setsid sleep 999 & ) ; setsid setsid sleep 999 & echo up",
        "(trap '' TERM HUP; setsid sh -c 'while :; do sleep 999; done' & ) ; echo up",
    ],
)
async def test_what_a_command_leaves_running_ends_with_its_row(
    tmp_path: Path, command: str, simulate: tuple[str, ...]
) -> None:
    """Codex 4337 and 7846: whoever holds the pipe holds up nothing, and is ended."""
    async with opened(tmp_path, simulate=simulate) as (runtime, _):
        result = await run(runtime, command, "echo next")
        first, second = timeless(rows_of(result))
        assert first.pop("ended_background") >= 1
        assert (first, second) == (row(0, "up\n"), row(1, "next\n"))
        assert below(runtime, "sleep") == []
        again = await run(runtime, "echo up")
        assert again.usage["worker"] == "warm"


async def test_what_ends_by_itself_is_waited_for_and_not_counted(tmp_path: Path) -> None:
    """The tee of a process substitution ends after its shell; its output belongs to the row."""
    async with opened(tmp_path) as (runtime, _):
        (only,) = timeless(rows_of(await run(runtime, "seq 3 > >(sleep 0.01; cat)")))
        assert only == row(0, "1\n2\n3\n")


async def test_a_noisy_command_hides_no_later_row(tmp_path: Path) -> None:
    """Contract: the budget is shared, the JSON is never cut by the host."""
    async with opened(tmp_path) as (runtime, _):
        noisy = "seq 200000; seq 200000 >&2"
        for budget in (2048, 8192, 300_000):
            result = await run(runtime, noisy, "echo quiet", noisy, max_output_bytes=budget)
            first, quiet, last = timeless(rows_of(result))
            assert quiet == row(1, "quiet\n")
            for item in (first, last):
                assert (item["truncated"], item["exit_code"]) == (True, 0)
                assert item["stdout"].startswith("1\n2\n")
                assert item["stdout"].endswith("199999\n200000\n")
                assert "bytes omitted] …" in item["stderr"]
            assert "truncated_bytes" not in result.usage
            size = len(json.dumps(result.content[0]["value"], separators=(",", ":")))
            assert size > budget * 0.9


async def test_a_budget_that_holds_no_rows_is_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    """A command whose row nobody sees must not run."""
    async with opened(tmp_path) as (runtime, work):
        result = await run(runtime, *["touch ran"] * 16, max_output_bytes=1000)
        assert (result.is_error, result.code) == (True, "output_budget_too_small")
        assert list(work.iterdir()) == []
        assert not (await run(runtime, "touch ran", max_output_bytes=1000)).is_error


async def test_a_flood_is_bounded_in_memory_and_time(tmp_path: Path) -> None:
    """A command that prints for ever ends at its own limit, not at one of the host."""
    async with opened(tmp_path) as (runtime, _):
        result = await run(runtime, {"command": "yes", "timeout_ms": 300})
        (only,) = rows_of(result)
        assert (only["timed_out"], only["truncated"], only["signal"]) == (True, True, "SIGTERM")
        again = await run(runtime, "echo up")
        assert again.usage["worker"] == "warm"


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_cancelled_call_leaves_no_process(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Contract: abort ends the process group; when dispatch is over, all is over."""
    async with opened(tmp_path, simulate=simulate) as (runtime, work):
        command = "trap '' TERM; setsid sleep 999 & touch up; while :; do sleep 0.02; done"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, runtime, command)
            while not (work / "up").exists():
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert below(runtime, "sleep") + below(runtime, "bash") == []
        assert runtime.launcher.live_children == 0
        assert timeless(rows_of(await run(runtime, "echo up"))) == [row(0, "up\n")]


async def test_without_the_right_to_start_processes_the_row_says_so(tmp_path: Path) -> None:
    """Security: cannot run anything when the operator took the profile away."""
    sandbox = {"tools": {"builtin/bash": "workspace"}}
    async with opened(tmp_path, sandbox=sandbox) as (runtime, _):
        result = await run(runtime, "echo up", "echo up")
        assert (result.is_error, result.code) == (True, "process_unavailable")
        first, second = rows_of(result)
        assert (first["error"], "does not allow processes" in first["message"]) == (
            "process_unavailable",
            True,
        )
        assert second == {"index": 1, "skipped": "prior_start_error"}


@pytest.mark.parametrize("simulate", TIERS)
async def test_commands_are_confined(tmp_path: Path, simulate: tuple[str, ...]) -> None:
    """Security: cannot read or write outside of the grants; can still inside."""
    (tmp_path / "secret").write_text("s3cret")
    async with opened(tmp_path, simulate=simulate) as (runtime, work):
        outside, inside = rows_of(
            await run(runtime, "cat ../secret; echo x > ../new", "echo y > mine; cat mine")
        )
        assert "s3cret" not in outside["stdout"] + outside["stderr"]
        assert outside["exit_code"] != 0
        assert (inside["stdout"], (work / "mine").read_text()) == ("y\n", "y\n")
    assert not (tmp_path / "new").exists()


# ---------------------------------------------------------------- variables


async def test_a_variable_reaches_the_environment_and_nothing_else(tmp_path: Path) -> None:
    """Security: not in the command text, not on any command line, not in results or records."""
    variables = {"key": variable({"kind": "literal", "value": TOKEN}, "use")}
    audit = tmp_path / "audit.jsonl"
    async with opened(tmp_path, vars=variables, audit=audit) as (runtime, work):
        command = 'test "$K" = "$(cat expected)" && echo same; touch up; sleep 999; :'
        (work / "expected").write_text(TOKEN)
        seen: list[str] = []
        async with trio.open_nursery() as nursery:
            item = {"command": command, "env_refs": {"K": "key"}}
            nursery.start_soon(run, runtime, item)
            while not (work / "up").exists():
                await trio.sleep(0.01)
            for process in psutil.Process().children(recursive=True):
                seen.append(" ".join(process.cmdline()))
            nursery.cancel_scope.cancel()
        assert any("$(cat expected)" in line for line in seen)
        assert not any(TOKEN in line for line in seen)

        same = {"command": 'test "$K" = "$(cat expected)" && echo same', "env_refs": {"K": "key"}}
        result = await run(runtime, same, 'echo "[$K]"')
        assert timeless(rows_of(result)) == [row(0, "same\n"), row(1, "[]\n")]
        assert TOKEN not in json.dumps(result.content)
    assert TOKEN not in audit.read_text()


async def test_a_variable_is_resolved_just_before_its_row(tmp_path: Path) -> None:
    """Contract: per row; what a row before has changed is seen."""
    variables = {"v": variable({"kind": "file", "path": "work/v", "format": "text"})}
    async with opened(tmp_path, vars=variables) as (runtime, work):
        (work / "v").write_text("one")
        show = {"command": 'echo "$V"', "env_refs": {"V": "v"}}
        result = await run(runtime, show, "printf two > v", show)
        assert [item["stdout"] for item in rows_of(result)] == ["one\n", "", "two\n"]


async def test_a_variable_that_fails_stops_the_rows_after_it(tmp_path: Path) -> None:
    """Contract: prior_var_error; the rows before have run."""
    variables = {"v": variable({"kind": "file", "path": "work/v", "format": "text"})}
    async with opened(tmp_path, vars=variables) as (runtime, work):
        result = await run(
            runtime,
            "touch ran",
            {"command": "touch wrong", "env_refs": {"V": "v"}},
            "touch wrong",
        )
        assert (result.is_error, result.code) == (True, "vars_unavailable")
        first, second, third = timeless(rows_of(result))
        assert first == row(0)
        assert (second["index"], second["error"]) == (1, "vars_unavailable")
        assert "'v'" in second["message"]
        assert third == {"index": 2, "skipped": "prior_var_error"}
        assert result.content[0]["value"]["skipped"] == [2]
        assert [path.name for path in work.iterdir()] == ["ran"]


async def test_references_are_checked_for_all_rows_before_the_first_runs(tmp_path: Path) -> None:
    """Contract: the whole batch before any I/O."""
    variables = {"v": variable({"kind": "literal", "value": "x"})}
    async with opened(tmp_path, vars=variables) as (runtime, work):
        wrong = {"command": "touch ran", "env_refs": {"V": "nobody"}}
        result = await run(runtime, "touch ran", wrong)
        assert (result.is_error, result.code) == (True, "vars_unavailable")
        assert "commands[1].env_refs" in result.content[0]["value"]["error"]["message"]
        assert list(work.iterdir()) == []


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"commands": [{"command": "true"}]}, None),
        ({"commands": [{"command": " \n"}]}, "command 0 is empty"),
        ({"commands": [{"command": "a"}, {"command": "a\0b"}]}, "command 1 holds a NUL"),
        ({"commands": [{"command": "é" * 70_000}]}, "takes 140000 bytes"),
    ],
)
def test_a_command_that_can_not_run_is_refused_beforehand(args: Any, words: str | None) -> None:
    """Contract: known before approval, with an example that works."""
    problem = find_problem(args)
    if words is None:
        assert problem is None
        return
    assert problem is not None
    assert words in problem
    assert find_problem(json.loads(problem.partition("for example ")[2])) is None


def test_the_description_shows_a_call_that_fits_the_schema() -> None:
    """Contract: a complete example call."""
    manifest = json.loads((FOLDER / "tool.json").read_text())
    text = manifest["description"].partition("Example call: ")[2]
    example, _ = json.JSONDecoder().raw_decode(text)
    from raw_exec.schema import compile_schema

    assert compile_schema(manifest["input_schema"]).problems(example) == ()
    assert find_problem(example) is None


ABORTED = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
from running.run import handler

class Signal:
    aborted = False
    callback = None
    def add_callback(self, callback):
        self.callback = callback
    def abort(self):
        self.aborted = True
        self.callback()

class Context:
    cwd = sys.argv[2]
    max_output_bytes = 8192
    signal = Signal()

def watch():
    while not os.path.exists("up"):
        pass
    Context.signal.abort()

os.chdir(sys.argv[2])
threading.Thread(target=watch).start()
commands = [{"command": c} for c in ("echo first", "echo out; touch up; sleep 999", "touch ran")]
fds = len(os.listdir("/proc/self/fd"))
print(json.dumps(handler({"commands": commands}, Context)))
assert len(os.listdir("/proc/self/fd")) == fds
"""


def test_an_abort_ends_the_command_and_skips_the_rest(tmp_path: Path) -> None:
    """Contract: a handler that is aborted still says what ran; in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ABORTED, str(FOLDER), str(tmp_path)],
        capture_output=True,
        check=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )
    result = json.loads(done.stdout)
    assert (result["isError"], result["code"]) == (True, "aborted")
    value = value_of(result)
    assert timeless(value["commands"]) == [
        row(0, "first\n"),
        row(1, "out\n", exit_code=None, signal="SIGTERM", aborted=True),
        {"index": 2, "skipped": "aborted"},
    ]
    assert value["skipped"] == [2]
    assert [path.name for path in tmp_path.iterdir()] == ["up"]
