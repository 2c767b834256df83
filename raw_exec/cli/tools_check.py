"""``raw tools check``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from .failures import EXIT_VALIDATION
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..config import Config
    from ..tools import Tool
    from .checking import CheckReport, Target

__all__ = ["check"]


@command("check")
@click.argument("targets", nargs=-1, metavar="[PATH|ID]...")
@click.pass_context
def check(ctx: click.Context, targets: tuple[str, ...]) -> int:
    """Check tools without running their handlers.

    PATH is a tool folder anywhere, ID an identity (local/word_count) or the ID of a selected
    tool. Without either, every selected tool is checked. Looked at: the manifest, its
    schemas, the rules about it, whether the module loads and what it exports, and what is
    legal but not portable, for each model provider. The module is imported in the descriptor
    engine and in a sandboxed process without writes, network or processes, and no handler is
    called. For a tool of an MCP server its server is started and asked for its definitions.

    Exit status: 0 when all is well, 3 when there are problems, 2 for a target that does not
    exist.
    """
    from ..config import load_config
    from .checking import find_targets, load_target

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    found = find_targets(config, targets, served=True)
    loaded = {t.label: load_target(config, t) for t in found if t.source != "mcp"}
    tools = [(tool, report) for report, tool in loaded.values() if tool is not None]
    if tools:
        _check_in_sandbox(config, tools)
    served = _check_servers(config, [target for target in found if target.source == "mcp"])
    reports = [served[t.label] if t.label in served else loaded[t.label][0] for t in found]
    bad = sum(not report.ok for report in reports)
    if settings.as_json:
        settings.output.json({"ok": not bad, "tools": [report.as_dict() for report in reports]})
    else:
        for report in reports:
            _print(settings, report)
        if not reports:
            settings.output.note("no tools are selected; nothing to check")
        elif len(reports) > 1 or bad:
            settings.output.note(f"{len(reports)} checked, {bad} with problems")
    return EXIT_VALIDATION if bad else 0


def _check_in_sandbox(config: Config, tools: list[tuple[Tool, CheckReport]]) -> None:
    from ..runtime import open_runtime
    from .checking import check_tool
    from .running import run_async

    # The runtime itself needs no tools: each is handed over one at a time.
    bare = config.without_tools(hooks=False)

    async def run() -> None:
        async with open_runtime(bare, cwd="/", spares=0) as runtime:
            for tool, report in tools:
                await check_tool(runtime, tool, report)

    run_async(run)


def _check_servers(config: Config, targets: list[Target]) -> dict[str, CheckReport]:
    from ..dispatch.options import resolve_cwd
    from .checking import check_served
    from .served import load_all_tools

    if not targets:
        return {}
    refs = {target.label for target in targets}
    chosen = tuple(use for use in config.agent.tools_use if use.ref in refs)
    agent = dataclasses.replace(config.agent, tools_use=chosen)
    asked = dataclasses.replace(config, agent=agent)
    registry = load_all_tools(asked, resolve_cwd("."))
    return {target.label: check_served(registry, target) for target in targets}


def _print(settings: Settings, report: CheckReport) -> None:
    out = settings.output
    what = f" {report.version} ({report.language})" if report.version else ""
    if report.ok:
        out.line(f"ok    {report.target}{what}", style="good")
        if report.language != "mcp":
            exports = "not verified" if report.exports is None else ", ".join(report.exports)
            out.line(f"      exports: {exports}")
            out.line(f"      descriptors: {_engine(report)}")
    else:
        out.line(f"wrong {report.target}{what}", style="error")
        for problem in report.problems:
            for line in _problem(problem, report):
                out.line(f"      {line}")
    for text in report.warnings:
        out.line(f"      warning: {text}", style="warning")
    for name, fit in report.providers.items():
        for problem in fit["problems"]:
            text = f"{problem['pointer']}: {problem['message']}"
            out.line(f"      withheld from {name}: {text}", style="warning")
        for text in fit["warnings"]:
            out.line(f"      warning: {text}", style="warning")


def _engine(report: CheckReport) -> str:
    if report.engine == "wasm":
        return "in process (wasm engine)"
    if report.engine == "host":
        return "in process (code of this package)"
    if report.engine == "worker":
        return f"in a descriptor worker: {report.fallback}"
    return "none" if report.engine == "none" else "not loaded"


def _problem(problem: dict[str, Any], report: CheckReport) -> list[str]:
    where = problem["where"] or report.folder
    if problem["line"] is not None:
        where = f"{where}:{problem['line']}:{problem['column']}"
    place = f" {problem['pointer']}" if problem["pointer"] else ""
    first, *rest = problem["message"].split("\n")
    lines = [f"{where}:{place} {first}", *(f"  | {line}" for line in rest)]
    if problem["hint"]:
        lines.append(f"  hint: {problem['hint']}")
    return lines
