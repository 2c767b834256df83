"""``raw tools definitions``."""

from __future__ import annotations

import click

from .failures import EXIT_VALIDATION
from .options import command, settings_of

__all__ = ["definitions"]


@command("definitions")
@click.option(
    "--for",
    "profile",
    metavar="PROVIDER",
    help="anthropic, openai, openai-strict, openai-responses, openai-responses-strict, gemini "
    "or mcp. Default: this package's own form.",
)
@click.pass_context
def definitions(ctx: click.Context, profile: str | None) -> int:
    """Print what to send to a model provider as its list of tools.

    Always JSON on standard output, with or without --json. A tool that the provider can't be
    told of is left out, and standard error says where its schema has to change; the others
    are printed all the same. Runs no tool code; servers of selected MCP tools are asked.

    Exit status: 0 when every visible tool is printed, 3 when one is withheld.
    """
    from ..config import load_config
    from ..dispatch.options import resolve_cwd
    from ..profiles import profile_named, project_tools
    from ..values import thaw
    from .served import load_all_tools

    settings = settings_of(ctx)
    chosen = None if profile is None else profile_named(profile)
    config = load_config(settings.config, agent=settings.agent)
    registry = load_all_tools(config, resolve_cwd("."))
    out = settings.output
    for missing in registry.missing:
        out.warning(str(missing))
    if chosen is None:
        out.json(thaw(registry.definitions()))
        return EXIT_VALIDATION if registry.missing else 0
    projected = project_tools(registry.tools, chosen)
    for withheld in projected.withheld:
        out.warning(f"{withheld.identity} is withheld from {chosen.name}")
        for problem in withheld.problems:
            out.note(f"  {problem}")
    for text in projected.warnings:
        out.warning(text)
    for tool in projected.tools:
        for text in tool.warnings:
            out.warning(f"{tool.tool_name}: {text}")
        if tool.name != tool.tool_name:
            out.note(f"{tool.tool_name} is called {tool.name} there")
    out.json(projected.definitions)
    return EXIT_VALIDATION if projected.withheld or registry.missing else 0
