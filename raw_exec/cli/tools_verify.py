"""``raw tools verify``."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import ConfigError
from .failures import EXIT_VALIDATION
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..config import Config
    from ..verify import CaseReport, Finding, ToolCases, ToolReport
    from .checking import Target

__all__ = ["verify"]

_EXIT_FAILED = 1
_STYLES = {"passed": "good", "failed": "error", "invalid": "error"}


@command("verify")
@click.argument("targets", nargs=-1, metavar="[PATH|ID]...")
@click.option(
    "--cases",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Read the cases from DIR instead of the tool's own folder; with one target only.",
)
@click.option(
    "--strict-effects",
    is_flag=True,
    help="Fail on any change to files also where the tool declares no file effects.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="How many cases run at the same time. Default: as many as there are CPUs.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write the report as JUnit XML to FILE.",
)
@click.option(
    "--github",
    is_flag=True,
    help="Also print annotations as GitHub workflow commands; with --json to standard error.",
)
@click.pass_context
def verify(
    ctx: click.Context,
    targets: tuple[str, ...],
    cases: str | None,
    strict_effects: bool,
    jobs: int | None,
    junit: str | None,
    github: bool,
) -> int:
    """Run the cases a tool ships and check its declared effects.

    PATH is a tool folder anywhere, ID an identity (local/word_count) or the ID of a selected
    tool. Without either, every selected tool is verified. Each case of cases/*.json is one
    call in a throw-away folder, through every step of a real call and in the tool's own
    sandbox. A tool with write grants outside of that folder runs on a copy-on-write view of
    all of them, of which nothing is kept; where that can't be had they are withheld. What the
    handler wrote, deleted and renamed is compared with the effects it declared: a change that
    was not declared is a failure, an effect that did not happen a warning.

    Exit status: 0 when all cases passed, 1 when one failed, 2 for a mistake in the command
    line or configuration, 3 when a case file or a tool is invalid.
    """
    from ..config import load_config
    from ..verify import count_statuses, render_github, render_junit, run_cases
    from .checking import find_targets
    from .running import run_async

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    found = find_targets(config, targets, served=False)
    if cases is not None and len(found) != 1:
        raise click.UsageError(f"--cases needs exactly one target, there are {len(found)}", ctx)
    with _open_report(junit) as write_report:
        loaded = [_load(config, target, cases) for target in found]
        ready = [(report, ready) for report, ready in loaded if ready is not None]
        if any(ready.cases for _, ready in ready):
            run_async(
                lambda: run_cases(
                    config,
                    ready,
                    jobs=jobs or os.cpu_count() or 1,
                    strict_effects=strict_effects,
                    progress=lambda tool, case: _detail(settings, tool, case),
                )
            )
        else:
            for report, item in ready:
                report.cases = list(item.invalid)
        reports = [report for report, _ in loaded]
        write_report(render_junit(reports))
    counts = count_statuses(reports)
    ok = not counts["failed"] and not counts["invalid"]
    if settings.as_json:
        tools = [report.as_dict() for report in reports]
        settings.output.json({"ok": ok, "counts": counts, "tools": tools})
    else:
        _print(settings, reports, counts, quote=github)
    if github:
        for line in render_github(reports):
            click.echo(line, err=settings.as_json)
    if counts["invalid"]:
        return EXIT_VALIDATION
    return 0 if ok else _EXIT_FAILED


def _load(config: Config, target: Target, cases: str | None) -> tuple[ToolReport, ToolCases | None]:
    from ..verify import Finding, ToolReport, find_cases
    from .checking import load_target

    checked, tool = load_target(config, target)
    report = ToolReport(checked.target, checked.folder, checked.version)
    report.problems = [
        Finding("invalid", item["message"], item["pointer"], item["line"], item["column"])
        for item in checked.problems
    ]
    if tool is None:
        return report, None
    found = find_cases(tool, None if cases is None else Path(os.path.abspath(cases)))
    if not found.cases and not found.invalid:
        report.warnings.append("there are no cases; put them in cases/*.json")
    return report, found


@contextmanager
def _open_report(path: str | None) -> Iterator[Callable[[str], None]]:
    """Open the report's file before anything runs, so that a typing mistake costs nothing."""
    if path is None:
        yield lambda _text: None
        return
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115  (closed below)
    except OSError as exc:
        raise ConfigError(
            "report_unwritable", f"can not be written: {exc.strerror}", where=path
        ) from exc

    def write(text: str) -> None:
        file.write(text)

    with file:
        yield write


def _detail(settings: Settings, tool: ToolReport, case: CaseReport) -> None:
    settings.output.detail(f"{tool.target}: {case.name}: {case.status}")


def _print(
    settings: Settings, reports: list[ToolReport], counts: dict[str, int], *, quote: bool
) -> None:
    # Security: a line of a plugin's text must not be taken for a workflow command.
    token = f"raw-{secrets.token_hex(16)}"
    if quote:
        click.echo(f"::stop-commands::{token}")
    for report in reports:
        _print_tool(settings, report)
    if quote:
        click.echo(f"::{token}::")
    shown = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    settings.output.note(shown or "no cases were run")


def _print_tool(settings: Settings, report: ToolReport) -> None:
    from ..manifest.tree import MANIFEST_NAME

    out = settings.output
    for problem in report.problems:
        out.line(f"invalid {report.target}", style="error")
        out.line(f"        {_located(problem, os.path.join(report.folder, MANIFEST_NAME))}")
    for text in report.warnings:
        out.line(f"{report.target}: warning: {text}", style="warning")
    for case in report.cases:
        time = f" ({case.elapsed_ms:.0f} ms)" if case.status != "invalid" else ""
        head = f"{case.status:7} {report.target} {case.name}{time}"
        out.line(head, style=_STYLES[case.status])
        for finding in case.failures:
            out.line(f"        {_located(finding, case.path)}")
        for finding in case.warnings:
            out.line(f"        warning: {finding.message}", style="warning")
        if case.status == "failed" or settings.verbosity > 0:
            for change in case.changes:
                if change.visible:
                    out.line(f"        did: {change}")
        if case.status == "failed":
            for stream, text in case.logs.items():
                for line in text.rstrip("\n").split("\n") if text else ():
                    out.line(f"        [{stream}] {line}")


def _located(finding: Finding, path: str) -> str:
    place = f":{finding.line}:{finding.column}" if finding.line is not None else ""
    return f"{path}{place}: {finding.message}"
