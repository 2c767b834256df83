"""process through an open runtime: who may ask, what a model sees, and what survives what."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

import raw_exec
from raw_exec.builtin.process.asking.request import ACTIONS, MAX_PAGE_BYTES, find_problem
from raw_exec.jobs import ring
from toolbox import footprint, write_config, write_tool

TOKEN = "tok-3ab9-never-to-be-seen"
FOLDER = Path(raw_exec.__file__).parent / "builtin" / "process"
UNKNOWN = "job_0123456789abcdef"


class Session:
    """A runtime with the process tool, and short ways to call it."""

    def __init__(self, runtime: raw_exec.Runtime, work: Path) -> None:
        self.runtime = runtime
        self.work = work

    async def call(self, action: str, **fields: Any) -> raw_exec.ToolResult:
        options = {name: fields.pop(name) for name in ("max_output_bytes",) if name in fields}
        args = {"action": action, **fields}
        return await self.runtime.registry.dispatch("process", args, **options)

    async def value(self, action: str, **fields: Any) -> Any:
        """Call, expect no error, and return the value of the JSON block."""
        result = await self.call(action, **fields)
        assert not result.is_error, result.text
        (block,) = result.content
        return block["value"]

    async def start(self, command: str, **fields: Any) -> str:
        return str((await self.value("start", command=command, **fields))["job"]["id"])

    async def ended(self, ident: str) -> dict[str, Any]:
        """Look at a job until it has ended."""
        while True:
            job: dict[str, Any] = (await self.value("status", id=ident))["job"]
            if job["state"] not in ("starting", "running", "stopping"):
                return job
            await trio.sleep(0.01)


@asynccontextmanager
async def opened(root: Path, *tools: str, **options: Any) -> AsyncIterator[Session]:
    """Open a runtime with process whose working directory is ``root/work``."""
    work = root / "work"
    work.mkdir()
    runtime_options = {name: options.pop(name) for name in ("simulate", "audit") if name in options}
    if "vars" in options:
        options["agent"] = {"vars": list(options["vars"])}
    names = ["builtin/process", *tools]
    config = raw_exec.load_config(write_config(root, names, **options))
    with trio.fail_after(90):
        async with raw_exec.open_runtime(config, cwd=work, **runtime_options) as runtime:
            yield Session(runtime, work)


def error_of(result: raw_exec.ToolResult) -> tuple[str | None, str]:
    """Return the result's code and the exact one."""
    (block,) = result.content
    return result.code, block["value"]["error"]["code"]


@pytest.mark.parametrize("simulate", [(), ("no-userns",)])
async def test_a_job_goes_on_after_its_call(tmp_path: Path, simulate: tuple[str, ...]) -> None:
    """Contract: start, look, read, stop; each call in its own time."""
    before = footprint()
    async with opened(tmp_path, simulate=simulate) as session:
        (session.work / "sub").mkdir()
        command = "pwd; until [ -e go ]; do sleep 0.01; done; echo went; exit 5"
        ident = await session.start(command, label="mine", cwd="sub")
        running = (await session.value("list"))["jobs"]
        assert [(job["id"], job["state"], job["label"]) for job in running] == [
            (ident, "running", "mine")
        ]
        (session.work / "sub" / "go").touch()
        job = await session.ended(ident)
        assert (job["state"], job["exit_code"], job["signal"]) == ("exited", 5, None)
        page = await session.value("output", id=ident)
        assert page == {
            "id": ident,
            "state": "exited",
            "cursor": 0,
            "next_cursor": job["output_bytes"],
            "text": f"{session.work}/sub\nwent\n",
            "truncated": False,
            "dropped_bytes": 0,
            "eof": True,
        }
        stopped = await session.value("stop", id=ident)
        assert stopped["job"] == job
        assert session.runtime.statistics().live_trees == 1  # the worker of the tool
    assert footprint() == before


async def test_a_job_outlives_the_worker_that_asked_for_it(tmp_path: Path) -> None:
    """Contract: the supervisor owns it, so a retired worker takes nothing with it."""
    sandbox = {
        "profiles": {"each": {"extends": "shell", "isolation": "fresh"}},
        "tools": {"builtin/process": "each"},
    }
    async with opened(tmp_path, sandbox=sandbox) as session:
        ident = await session.start("exec sleep 999")
        assert session.runtime.statistics().pool.retired == {"fresh isolation": 1}
        assert (await session.value("status", id=ident))["job"]["state"] == "running"
        stopped = (await session.value("stop", id=ident))["job"]
        assert (stopped["state"], stopped["signal"]) == ("stopped", "SIGTERM")
        assert (await session.value("stop", id=ident))["job"] == stopped


async def test_closing_the_runtime_ends_its_jobs(tmp_path: Path) -> None:
    """Contract: not the host."""
    before = footprint()
    async with opened(tmp_path) as session:
        await session.start("trap '' TERM; setsid sleep 999 & while :; do sleep 0.1; done")
        await session.start("exec sleep 999")
    assert footprint() == before


async def test_pages_joined_are_the_output_at_any_budget(tmp_path: Path) -> None:
    """Contract: absolute cursors; the JSON block is never cut by the host."""
    data = "".join(f"{n} é😀\t\n" for n in range(300))
    async with opened(tmp_path) as session:
        (session.work / "data").write_text(data)
        ident = await session.start("cat data; printf '\\xff'")
        job = await session.ended(ident)
        for budget, size in ((500, 65536), (8192, 16), (8192, 1000), (100_000, 65536)):
            text, cursor, eof = "", 0, False
            while not eof:
                result = await session.call(
                    "output", id=ident, cursor=cursor, max_bytes=size, max_output_bytes=budget
                )
                page = result.content[0]["value"]
                assert "truncated_bytes" not in result.usage
                assert (page["truncated"], page["cursor"]) == (not page["eof"], cursor)
                text, cursor, eof = text + page["text"], page["next_cursor"], page["eof"]
                if size == 16 and cursor > 500:
                    break
            assert (data + "\ufffd").startswith(text)
            if eof:
                assert text == data + "\ufffd"
                assert (cursor, page["not_utf8"]) == (job["output_bytes"], True)


async def test_a_list_keeps_to_its_budget_and_shows_live_jobs_first(tmp_path: Path) -> None:
    """What is left out is counted."""
    async with opened(tmp_path) as session:
        over = [await session.start(f"true {'x' * 150}") for _ in range(4)]
        for ident in over:
            await session.ended(ident)
        live = await session.start("exec sleep 999")
        result = await session.call("list", max_output_bytes=800)
        value = result.content[0]["value"]
        assert "truncated_bytes" not in result.usage
        assert value["jobs"][0]["id"] == live
        assert value["omitted"] == 5 - len(value["jobs"])
        assert len((await session.value("list"))["jobs"]) == 5


async def test_failures_have_a_code_and_say_what_is_wrong(tmp_path: Path) -> None:
    """Contract: process_unavailable, with the exact reason beside it."""
    async with opened(tmp_path) as session:
        for action in ("status", "output", "stop"):
            result = await session.call(action, id=UNKNOWN)
            assert error_of(result) == ("process_unavailable", "unknown_job")
        result = await session.call("start", command="true", cwd="/etc")
        assert error_of(result) == ("process_unavailable", "cwd_invalid")
        ident = await session.start("true")
        await session.ended(ident)
        result = await session.call("output", id=ident, cursor=1)
        assert error_of(result) == ("process_unavailable", "cursor_invalid")
        result = await session.call("output", id=ident, max_output_bytes=400)
        assert error_of(result) == ("output_budget_too_small", "output_budget_too_small")
        idents = [await session.start("exec sleep 999") for _ in range(8)]
        result = await session.call("start", command="true")
        assert error_of(result) == ("process_unavailable", "too_many_jobs")
        await session.value("stop", id=idents[0])
        await session.start("true")


async def test_a_killed_launcher_is_told_as_lost(tmp_path: Path) -> None:
    """Contract: lost; and the tool goes on working with a new launcher."""
    async with opened(tmp_path) as session:
        ident = await session.start("exec sleep 999")
        pid = session.runtime.launcher.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await session.runtime.jobs._find(ident).settled.wait()
        assert (await session.ended(ident))["state"] == "lost"
        assert (await session.ended(await session.start("exit 4")))["exit_code"] == 4


async def test_only_the_process_tool_may_ask_for_jobs(tmp_path: Path) -> None:
    """Security: authorised by the call's identity; another tool with this name can't either."""
    source = """
def handler(args, context):
    try:
        answer = context.ask(args["method"], args["params"])
    except Exception as error:
        answer = error.code
    return {"content": [{"type": "json", "value": answer}]}
"""
    write_tool(tmp_path, "other", source, language="python")
    asked = {"command": "true", "cwd": None, "label": None, "timeout_ms": None, "env_refs": {}}
    async with opened(tmp_path, "agent/other") as session:
        for method, params in (("process.start", asked), ("process.list", {})):
            args = {"method": method, "params": params}
            result = await session.runtime.registry.dispatch("other", args)
            assert result.content[0]["value"] == "unsupported"
        assert await session.value("list") == {"jobs": []}


async def test_a_variable_reaches_the_job_and_nothing_else(tmp_path: Path) -> None:
    """Security: the value is resolved by the supervisor and passed as environment only."""
    source = {"kind": "literal", "value": TOKEN}
    variables = {"key": {"description": "a key", "access": "use", "source": source}}
    audit = tmp_path / "audit.jsonl"
    async with opened(tmp_path, vars=variables, audit=audit) as session:
        (session.work / "expected").write_text(TOKEN)
        command = 'test "$K" = "$(cat expected)" && echo same; touch up; sleep 999; :'
        ident = await session.start(command, env_refs={"K": "key"})
        while not (session.work / "up").exists():
            await trio.sleep(0.01)
        lines = [" ".join(p.cmdline()) for p in psutil.Process().children(recursive=True)]
        assert any("cat expected" in line for line in lines)
        assert not any(TOKEN in line for line in lines)
        assert (await session.value("output", id=ident))["text"] == "same\n"
        assert TOKEN not in json.dumps(await session.value("list"))

        result = await session.call("start", command="touch ran", env_refs={"K": "nobody"})
        assert error_of(result) == ("vars_unavailable", "vars_unavailable")
        assert not (session.work / "ran").exists()
    assert TOKEN not in audit.read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"action": "start"}, "start needs command"),
        ({"action": "status"}, "status needs id"),
        ({"action": "list", "id": UNKNOWN}, "list takes no id"),
        ({"action": "stop", "id": UNKNOWN, "cursor": 1}, "stop takes no cursor"),
        ({"action": "start", "command": " "}, "command must not be empty"),
        ({"action": "start", "command": "a\0"}, "NUL"),
        ({"action": "start", "command": "a", "cwd": "a\0"}, "NUL"),
    ],
)
def test_fields_of_another_action_are_refused_beforehand(args: Any, words: str) -> None:
    """Contract: known before approval, with an example that works."""
    problem = find_problem(args)
    assert problem is not None
    assert words in problem
    assert find_problem(json.loads(problem.partition("for example ")[2])) is None


def test_the_description_shows_a_call_that_fits_the_schema() -> None:
    """Contract: a complete example call; and the schema knows every action and field."""
    manifest = json.loads((FOLDER / "tool.json").read_text())
    example, _ = json.JSONDecoder().raw_decode(
        manifest["description"].partition("Example call: ")[2]
    )
    from raw_exec.schema import compile_schema

    assert compile_schema(manifest["input_schema"]).problems(example) == ()
    assert find_problem(example) is None
    properties = manifest["input_schema"]["properties"]
    assert properties["action"]["enum"] == list(ACTIONS)
    fields = {name for needed, possible in ACTIONS.values() for name in (*needed, *possible)}
    assert fields | {"action"} == set(properties)


def test_the_tool_and_the_host_agree_on_the_size_of_a_page() -> None:
    """The tool's folder stands alone and the host imports nothing of it, so each has its own."""
    manifest = json.loads((FOLDER / "tool.json").read_text())
    fields = manifest["input_schema"]["properties"]["max_bytes"]
    assert (fields["minimum"], fields["maximum"]) == (ring.MIN_PAGE_BYTES, ring.MAX_PAGE_BYTES)
    assert MAX_PAGE_BYTES == ring.MAX_PAGE_BYTES
