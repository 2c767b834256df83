"""``raw tools explain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError
from .arguments import read_arguments
from .hooks import event_text
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..config import Config
    from ..tools import Tool, ToolRegistry
    from .explaining import Judgement

__all__ = ["explain"]

_HOOK_WORDS = {
    True: "would run",
    False: "would not run",
    None: "depends on the arguments; give --args",
}


@command("explain")
@click.argument("name")
@click.option(
    "--args",
    "arguments",
    metavar="JSON|@FILE|-",
    help="Say what would happen to a call with these arguments.",
)
@click.option(
    "--cwd",
    type=click.Path(),
    metavar="DIR",
    help="Directory that relative paths mean, and that the sandbox grants. Default: here.",
)
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Say whether the handler could read and write PATH, and which grant says so. "
    "May be repeated.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Say whether the handler could connect to HOST. May be repeated.",
)
@click.pass_context
def explain(
    ctx: click.Context,
    name: str,
    arguments: str | None,
    cwd: str | None,
    paths: tuple[str, ...],
    hosts: tuple[str, ...],
) -> None:
    """Say what a tool may do and what would happen.

    NAME is the model-visible name or the identity. Shown are the sandbox plan, the rules that
    apply, which of them would decide, and the hooks. Neither handler nor hooks run. With
    --args, validateArgs and describeEffects run as they would for a call: in process without
    input or output, or, where that engine can't load them, in a sandboxed process without
    writes and network.
    """
    from ..config import load_config
    from ..dispatch.options import resolve_cwd
    from ..hooks import load_hooks
    from .explaining import describe_hooks
    from .served import load_all_tools

    settings = settings_of(ctx)
    config = load_config(settings.config, agent=settings.agent)
    directory = resolve_cwd(cwd or ".")
    registry = load_all_tools(config, directory)
    tool = find_tool(registry, name)
    hooks = load_hooks(config, registry.tools)
    value = None if arguments is None else read_arguments(arguments)
    data = _describe(config, tool, directory, paths, hosts)
    judgement = _judge(config, tool, value, directory, given=arguments is not None)
    data["hooks"] = describe_hooks(hooks, tool, judgement, value)
    data["would"] = judgement.as_dict()
    if settings.as_json:
        settings.output.json(data)
    else:
        _print(settings, data, judgement)


def find_tool(registry: ToolRegistry, name: str) -> Tool:
    """Return the selected tool with this model-visible name or identity.

    Raises:
        ConfigError: ``unknown_tool``; ``mcp_unavailable``: its server does not offer it.
    """
    missing = registry.find_missing(name)
    if missing is not None:
        raise ConfigError("mcp_unavailable", str(missing), hint=missing.hint)
    tool = registry.get(name) or registry.by_identity(name)
    if tool is None:
        from ..fields import did_you_mean

        known = [item.name for item in registry.tools]
        near = did_you_mean(name, [*known, *(item.identity for item in registry.tools)])
        raise ConfigError(
            "unknown_tool",
            f"no selected tool is named {name!r:.80}{near}",
            hint=f"selected tools: {', '.join(known[:20]) or 'none'}",
        )
    return tool


def _describe(
    config: Config, tool: Tool, cwd: str, paths: tuple[str, ...], hosts: tuple[str, ...]
) -> dict[str, Any]:
    from ..sandbox import explain_plan
    from ..tools import derive_tool_plan
    from .access import decide_host, decide_path, find_runtime_files
    from .explaining import describe_rules
    from .served import describe_server, find_server_files

    plan = derive_tool_plan(config, tool, cwd)
    runtime = None
    if paths:
        served = find_server_files(config, tool, cwd)
        runtime = served if tool.mcp is not None else find_runtime_files(tool.language)
    hidden = tool.policy.hidden
    return {
        "identity": tool.identity,
        "name": tool.name,
        "version": tool.manifest.version,
        "language": tool.language,
        "folder": str(tool.snapshot.source),
        "digest": tool.snapshot.digest,
        "visible": hidden is None,
        "profile": tool.profile,
        "server": describe_server(config, tool, cwd),
        "plan": explain_plan(plan),
        "rules": describe_rules(config.agent, tool.identity),
        "paths": [decide_path(plan, path, cwd, runtime) for path in paths],
        "hosts": [decide_host(plan, host) for host in hosts],
    }


def _judge(config: Config, tool: Tool, value: Any, cwd: str, *, given: bool) -> Judgement:
    from .explaining import judge_call, judge_without_arguments

    if not given:
        return judge_without_arguments(tool)
    from ..runtime import open_runtime
    from .running import run_async

    async def run() -> Judgement:
        async with open_runtime(config, cwd=cwd, spares=0) as runtime:
            return await judge_call(runtime, tool, value, cwd)

    return run_async(run)


def _print(settings: Settings, data: dict[str, Any], judgement: Judgement) -> None:
    out = settings.output
    out.line(f"tool:     {data['identity']} {data['version']} ({data['language']})")
    out.line(f"name:     {data['name']}" + ("" if data["visible"] else ", hidden from models"))
    server = data["server"]
    if server is None:
        out.line(f"folder:   {data['folder']}")
    else:
        out.line(f"server:   {server['name']}, {server['type']}: {server['at']}")
        for index, path in enumerate(server["files"]):
            out.line(f"{'files:' if not index else '':<10}{path}")
    out.line()
    out.heading(f"sandbox plan (profile {data['profile']})")
    for key, value in data["plan"].items():
        if key in ("profile", "key", "warnings"):
            continue
        shown = ", ".join(map(str, value)) or "none" if isinstance(value, list) else value
        shown = {True: "yes", False: "no"}.get(shown, shown) if isinstance(shown, bool) else shown
        out.line(f"  {key + ':':<14} {shown}")
    for text in data["plan"]["warnings"]:
        out.line(f"  warning: {text}", style="warning")
    out.line()
    rules = data["rules"]
    out.heading(f"rules about it ({len(rules)})")
    for rule in rules:
        when = rule["when"]
        condition = (
            f" when {when['source']} {when['any']} matches {when['regex']!r}" if when else ""
        )
        after = ", after the run and before the commit" if rule["review"] else ""
        out.line(f"  {rule['index']}: {rule['effect']} {rule['match']!r}{condition}{after}")
        out.line(f"     {rule['role']}")
    if data["hooks"]:
        out.line()
        out.heading(f"hooks about it ({len(data['hooks'])})")
        for hook in data["hooks"]:
            out.line(f"  {hook['hook']}: {event_text(hook)}")
            out.line(f"     {_HOOK_WORDS[hook['runs']]}")
    for path in data["paths"]:
        out.line()
        out.heading(f"path {path['path']}")
        out.line(f"  read:  {'yes' if path['read'] else 'no'}")
        out.line(f"  write: {'yes' if path['write'] else 'no'}")
        out.line(f"  {path['reason']}")
    for host in data["hosts"]:
        out.line()
        out.heading(f"host {host['host']}")
        out.line(f"  connect: {'yes' if host['allowed'] else 'no'}")
        out.line(f"  {host['reason']}")
    out.line()
    out.heading("what would happen")
    first, *rest = judgement.message.split("\n")
    code = f"{judgement.code}: " if judgement.code else ""
    out.line(f"  {judgement.would}: {code}{first}")
    for line in rest:
        out.line(f"    {line}")
    gates = dict.fromkeys(h["hook"] for h in data["hooks"] if h["gate"] and h["runs"] is not False)
    if gates and judgement.would != "refuse":
        out.line(f"  unless a hook denies it: {', '.join(gates)}")
    if judgement.effects is not None:
        out.line("  intended effects, as the tool describes them:")
        for line in json.dumps(judgement.effects, indent=2, ensure_ascii=False).split("\n"):
            out.line(f"    {line}")
