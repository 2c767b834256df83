"""``raw doctor``."""

from __future__ import annotations

from typing import Any

import click

from .failures import EXIT_SANDBOX
from .options import Settings, command, settings_of

__all__ = ["doctor"]


@command("doctor")
@click.pass_context
def doctor(ctx: click.Context) -> int:
    """Show what this host can enforce, and what is missing.

    Each feature is probed by doing: a confined process is started that must both work and be
    denied. Also shown: Node and Python, the cache, and the configuration file.

    Exit status: 0 when at least the baseline tier works, else 7.
    """
    from .host import examine_host

    settings = settings_of(ctx)
    report = examine_host(settings.config)
    if settings.as_json:
        settings.output.json(report)
    else:
        _print(settings, report)
    return 0 if report["ok"] else EXIT_SANDBOX


def _print(settings: Settings, report: dict[str, Any]) -> None:
    out = settings.output
    for title, checks in (("sandbox", report["sandbox"]), ("host", report["host"])):
        out.heading(title)
        for check in checks:
            mark, style = ("ok", "good") if check["ok"] else ("fix", "warning")
            out.line(f"  {mark:<5}{check['name']:<12} {check['message']}", style=style)
            if not check["ok"] and check["hint"]:
                out.line(f"       hint: {check['hint']}")
        out.line()
    if report["ok"]:
        out.line(f"tools can run; the highest tier that works here is {report['tier']}")
    else:
        out.line("tools can't run here: the baseline tier does not work", style="error")
