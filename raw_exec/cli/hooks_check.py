"""``raw hooks check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .failures import EXIT_VALIDATION
from .hooks import event_text
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..config import Config
    from ..errors import RawExecError
    from ..tools import Tool

__all__ = ["check"]


@command("check")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.pass_context
def check(ctx: click.Context, names: tuple[str, ...]) -> int:
    """Check hooks without running them.

    ID is a selection ID (agent/guard), selected or not. Without one, every selected hook is
    checked. Looked at: the folder and its manifest, conditions against the schemas of every
    selected tool they can reach, whether the command can be found and executed, and whether
    the sandbox plan can be derived.

    Exit status: 0 when all is well, 3 when there are problems.
    """
    from ..config import load_config
    from ..dispatch.options import resolve_cwd
    from .served import load_all_tools

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    tools = load_all_tools(config, resolve_cwd(".")).tools
    reports = [_check(config, tools, name) for name in names or config.agent.hooks_use]
    bad = sum(bool(report["problems"]) for report in reports)
    if settings.as_json:
        settings.output.json({"ok": not bad, "hooks": reports})
    else:
        for report in reports:
            _print(settings, report)
        if not reports:
            settings.output.note("no hooks are selected; nothing to check")
        elif len(reports) > 1 or bad:
            settings.output.note(f"{len(reports)} checked, {bad} with problems")
    return EXIT_VALIDATION if bad else 0


def _check(config: Config, tools: tuple[Tool, ...], name: str) -> dict[str, Any]:
    from ..errors import ConfigError, SandboxError
    from ..hooks import describe_hook, hook_plan, load_hooks
    from ..pool.oneshot import ProgramUnavailable, find_program

    report: dict[str, Any] = {"hook": name, "ok": True, "problems": [], "warnings": []}
    try:
        found = load_hooks(config, tools, use=(name,))
    except ConfigError as exc:
        report["problems"] = [problem.message for problem in exc.problems]
        report["ok"] = False
        return report
    (hook,) = found.hooks
    report |= {key: value for key, value in describe_hook(config, hook).items() if key != "hook"}
    report["warnings"] = list(found.warnings)
    if name not in config.agent.hooks_use:
        report["warnings"].append(f"agent {config.agent.name!r} does not select it")
    try:
        program = find_program(
            hook.manifest.command, hook.manifest.args, directory=hook.snapshot.source
        )
        report["program"] = program.argv[0]
    except ProgramUnavailable as exc:
        report["problems"].append(_text(exc))
    try:
        plan = hook_plan(config, hook.identity, cwd="/")
        report["warnings"] += plan.warnings if plan.profile == report["profile"] else ()
    except SandboxError as exc:
        report["problems"].append(_text(exc))
    report["ok"] = not report["problems"]
    return report


def _text(exc: RawExecError) -> str:
    return f"{exc.message}; {exc.hint}" if exc.hint else exc.message


def _print(settings: Settings, report: dict[str, Any]) -> None:
    out = settings.output
    if report["ok"]:
        out.line(f"ok    {report['hook']}", style="good")
        for event in report["events"]:
            out.line(f"      {'gate' if event['gate'] else 'told'}: {event_text(event)}")
        out.line(f"      runs: {report['program']}, profile {report['profile']}")
    else:
        out.line(f"wrong {report['hook']}", style="error")
        for text in report["problems"]:
            out.line(f"      {text}")
    for text in report["warnings"]:
        out.line(f"      warning: {text}", style="warning")
