"""A registry of 10,000 tools in five versions each: list, resolve, install, generate."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from raw_exec.contracts.client import Transport, open_registry
from raw_exec.contracts.model import Status

from .claims import Bench, BenchmarkFailed, Claim
from .contracts_registry import (
    PINS_PER_PROMPT,
    PROMPTS,
    WORKSPACE,
    BuiltRegistry,
    build_registry,
    running_server,
    tool_name,
)
from .host import run_to_end
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section
from .start_up import REPOSITORY, raw_command

if TYPE_CHECKING:
    from raw_exec.contracts.client import Registry

COUNT = 10_000
PINS = PROMPTS * PINS_PER_PROMPT
PAGE = 50
CONSTRAINT, BEST = "^1.0.0", "1.2.0"

BASE = "HTTP: a request that asks for nothing"
LIST_FILE, LIST_HTTP = "list, first page, from the file", "list, first page, over HTTP"
RESOLVE_FILE, RESOLVE_HTTP = "resolve, from the file", "resolve, over HTTP"
START = "raw --version"
INSTALL_FILE, INSTALL_HTTP = "raw install, from the file", "raw install, over HTTP"
INSTALL_CACHED = "raw install, all cached"
PYTHON, TYPESCRIPT = "raw generate, Python", "raw generate, TypeScript"


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    folder = bench.work / "contracts"
    folder.mkdir()
    built = await trio.to_thread.run_sync(build_registry, folder, COUNT)
    section.facts["database_bytes"] = built.path.stat().st_size
    with ExitStack() as stack:
        url = stack.enter_context(running_server(built.path))
        file = open_registry(str(built.path))
        stack.callback(file.close)
        server = open_registry(url, built.token)
        await interleave_into(
            section,
            [
                Contestant(BASE, _calls(partial(_nothing, url, built.token)), is_peer=True),
                Contestant(LIST_FILE, _calls(partial(_list, file, built))),
                Contestant(LIST_HTTP, _calls(partial(_list, server, built))),
                Contestant(RESOLVE_FILE, _calls(partial(_resolve, file, built))),
                Contestant(RESOLVE_HTTP, _calls(partial(_resolve, server, built))),
            ],
            rounds=bench.round_count(20, 4),
            calls=bench.size(10, 5),
            warm_up=5,
            scale=1e3,
        )
        await interleave_into(
            section,
            _commands(folder, built, url),
            rounds=bench.round_count(8, 2),
            calls=1,
            warm_up=1,
            scale=1e3,
        )
    section.notes.append(
        f"{COUNT:,} tools with five publications each; {PINS} pins in {PROMPTS} prompts"
    )
    section.notes.append("'raw …' rows are whole commands, the start of Python included")


def _calls(work: Callable[[], object]) -> Round:
    """Time something that blocks, in this thread: nothing else happens in it."""

    async def call() -> None:
        work()

    return timed(call)


def _nothing(url: str, token: str) -> None:
    status, answer = Transport(url, token).post("/graphql", {"query": "{ __typename }"})
    if status != 200 or answer["data"] != {"__typename": "Query"}:
        raise BenchmarkFailed(f"the server answered {status}: {answer}")


def _list(registry: Registry, built: BuiltRegistry) -> None:
    page = registry.list_tools(WORKSPACE, take=PAGE)
    if (len(page.data), page.total) != (PAGE, built.tools):
        raise BenchmarkFailed(f"{len(page.data)} of {page.total} tools were listed")


def _resolve(registry: Registry, built: BuiltRegistry) -> None:
    name = tool_name(random.randrange(built.tools))
    found = registry.find_tool_version(WORKSPACE, name, CONSTRAINT)
    if found is None or (found.version, found.status) != (BEST, Status.PUBLISHED):
        raise BenchmarkFailed(f"{name}@{CONSTRAINT} is {found and found.ref}")


def _commands(folder: Path, built: BuiltRegistry, url: str) -> list[Contestant]:
    fresh = {name: folder / name for name in (INSTALL_FILE, INSTALL_HTTP)}
    for project in (*fresh.values(), folder / "installed"):
        project.mkdir()
        prompts = {f"@{WORKSPACE}/prompt-{number}": "^1.0.0" for number in range(PROMPTS)}
        outputs = [
            {"language": "python", "file": "prompts.py"},
            {"language": "typescript", "file": "prompts.ts"},
        ]
        text = json.dumps({"prompts": prompts, "outputs": outputs})
        (project / "raw-contracts.json").write_text(text, "utf-8")
    env = {
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(folder),
        "RAW_REGISTRY": url,
        "RAW_REGISTRY_KEY": built.token,
    }
    installed = folder / "installed"
    file = ["--registry", str(built.path)]
    _raw(["install", *file], env, installed)

    def install(project: Path, more: list[str]) -> None:
        seen = json.loads(_raw(["install", "--json", *more], env, project))
        if {one["state"] for one in seen["prompts"]} != {"fetched"}:
            raise BenchmarkFailed(f"not everything was fetched: {seen}")

    def forget(project: Path) -> None:
        shutil.rmtree(project / ".raw", ignore_errors=True)
        (project / "raw-contracts.lock.json").unlink(missing_ok=True)

    def generate(output: str) -> None:
        _raw(["generate", "--output", output], env, installed)
        text = (installed / output).read_text("utf-8")
        if any(tool_name(i * built.tools // PINS) not in text for i in range(PINS)):
            raise BenchmarkFailed(f"{output} does not have all {PINS} tools")

    def after(prepare: Callable[[], None], work: Callable[[], None]) -> Round:
        async def run(calls: int) -> list[float]:
            samples = []
            for _ in range(calls):
                prepare()
                start = time.perf_counter()
                work()
                samples.append(time.perf_counter() - start)
            return samples

        return run

    def fetching(name: str, more: list[str]) -> Contestant:
        project = fresh[name]
        return Contestant(name, after(partial(forget, project), partial(install, project, more)))

    def generating(name: str, output: str) -> Contestant:
        # Written anew each time: a file that is as it should be is not touched.
        path = installed / output
        return Contestant(
            name, after(lambda: path.unlink(missing_ok=True), partial(generate, output))
        )

    return [
        Contestant(START, _calls(partial(_raw, ["--version"], env, folder)), is_peer=True),
        fetching(INSTALL_FILE, file),
        fetching(INSTALL_HTTP, []),
        Contestant(INSTALL_CACHED, _calls(partial(_raw, ["install", *file], env, installed))),
        generating(PYTHON, "prompts.py"),
        generating(TYPESCRIPT, "prompts.ts"),
    ]


def _raw(args: list[str], env: dict[str, str], cwd: Path) -> str:
    return run_to_end([*raw_command(), *args], env=env, cwd=cwd)


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    rows = (
        (f"{COUNT:,} contracts: first page from the file", LIST_FILE, 50.0, "ms"),
        (f"{COUNT:,} contracts: first page over HTTP", LIST_HTTP, 50.0, "ms"),
        (f"{COUNT:,} contracts: resolve from the file", RESOLVE_FILE, 10.0, "ms"),
        (f"{COUNT:,} contracts: resolve over HTTP", RESOLVE_HTTP, 10.0, "ms"),
        (f"install {PINS} pins from the file", INSTALL_FILE, 2.0, "s"),
        (f"install {PINS} pins over HTTP", INSTALL_HTTP, 2.0, "s"),
        (f"generate {PINS} tools, Python", PYTHON, 1.0, "s"),
        (f"generate {PINS} tools, TypeScript", TYPESCRIPT, 1.0, "s"),
    )
    goals = []
    for claim, name, limit, unit in rows:
        row = section.row(name)
        measured = None if row is None else row.p50 / (1000 if unit == "s" else 1)
        goals.append(Goal(claim, limit, measured, unit, note=section.missing(name)))
    return goals


CLAIM = Claim("contracts", "A registry of 10,000 tools", "ms", BASE, run, judge)
