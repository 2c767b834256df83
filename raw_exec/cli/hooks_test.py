"""``raw hooks test``."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from .arguments import read_arguments
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..config import Config
    from ..hooks import BoundHook
    from ..runtime import Runtime

__all__ = ["test"]

_EXIT_WARNED = 1
_EXIT_STOPPED = 4
_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionEnd",
)


@command("test")
@click.argument("name")
@click.option(
    "--event",
    required=True,
    type=click.Choice(_EVENTS),
    help="What the hook is told of.",
)
@click.option(
    "--tool",
    metavar="NAME",
    help="Tool of a tool event: model-visible name or identity of a selected tool.",
)
@click.option(
    "--args",
    "arguments",
    default="{}",
    show_default=True,
    metavar="JSON|@FILE|-",
    help="Arguments of the call, for tool events.",
)
@click.option(
    "--result",
    metavar="JSON|@FILE|-",
    help="Result of the handler, for PostToolUse and PostToolUseFailure.",
)
@click.option(
    "--payload",
    metavar="JSON|@FILE|-",
    help='More of a session event, for example {"prompt": "hello"}.',
)
@click.option(
    "--source",
    type=click.Choice(("model", "user_action")),
    default="model",
    show_default=True,
    help="Who made the call, for tool events.",
)
@click.option("--cwd", type=click.Path(), metavar="DIR", help="Directory of the event.")
@click.option("--force", is_flag=True, help="Run it although it would not be told of the event.")
@click.pass_context
def test(
    ctx: click.Context,
    name: str,
    event: str,
    tool: str | None,
    arguments: str,
    result: str | None,
    payload: str | None,
    source: str,
    cwd: str | None,
    force: bool,
) -> int:
    """Run a hook on a made-up event and show its decision.

    NAME is a selection ID (agent/guard), selected or not. The hook really runs, in its
    sandbox and from a snapshot of its folder as it is now; the tool does not, except for its
    validateArgs and describeEffects, which run as they would for a call. Shown are what the
    hook is told, what it decided, and how long that took. When no entry of its events
    matches, it does not run.

    Exit status: 0 it lets the event go on, or is not told of it, 4 it stops the event,
    1 it failed where nothing can be stopped, 2 configuration, 3 arguments.
    """
    from ..config import load_config
    from ..manifest.hook import TOOL_EVENTS
    from .running import run_async

    settings = settings_of(ctx)
    if event in TOOL_EVENTS and tool is None:
        raise click.UsageError(f"{event} needs --tool")
    config = load_config(settings.config, agent=settings.agent)
    told = _Told(
        event=event,
        tool=tool,
        arguments=read_arguments(arguments) if event in TOOL_EVENTS else None,
        result=None if result is None else read_arguments(result),
        facts=None if payload is None else read_arguments(payload),
        source=source,
    )
    if told.facts is not None and not isinstance(told.facts, dict):
        raise click.BadParameter("must be a JSON object", ctx, param_hint="'--payload'")
    if told.result is not None and not isinstance(told.result, dict):
        raise click.BadParameter("must be a JSON object", ctx, param_hint="'--result'")
    data = run_async(lambda: _run(config, name, told, cwd or ".", force))
    if settings.as_json:
        settings.output.json(data)
    else:
        _print(settings, data)
    if data["outcome"] in ("denied", "blocked"):
        return _EXIT_STOPPED
    return _EXIT_WARNED if data["outcome"] == "warned" else 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    """The event that is made up."""

    event: str
    tool: str | None
    arguments: Any
    result: dict[str, Any] | None
    facts: dict[str, Any] | None
    source: str


async def _run(config: Config, name: str, told: _Told, cwd: str, force: bool) -> dict[str, Any]:
    from ..dispatch.options import resolve_cwd
    from ..policy import parse_rules
    from ..runtime import open_runtime

    # Without rules, since they decide before hooks and are not what is tried.
    agent = dataclasses.replace(
        config.agent, hooks_use=(name,), rules=parse_rules([]), raw_rules=()
    )
    directory = resolve_cwd(cwd)
    only = dataclasses.replace(config, agent=agent)
    async with open_runtime(only, cwd=directory, spares=0) as runtime:
        (hook,) = runtime.hooks.hooks.hooks
        payload, matches = await _tell(runtime, hook, told, directory)
        data: dict[str, Any] = {
            "hook": hook.identity,
            "event": told.event,
            "matches": matches,
            "payload": payload,
            "outcome": None,
        }
        if matches or force:
            receipt = await runtime.hooks.run_hook(hook, told.event, payload, cwd=directory)
            data |= {
                "outcome": receipt.outcome,
                "decision": "deny" if receipt.stops else "continue",
                "message": receipt.message,
                "error": receipt.error,
                "elapsed_ms": round(receipt.elapsed_ms, 3),
            }
        return data


async def _tell(
    runtime: Runtime, hook: BoundHook, told: _Told, cwd: str
) -> tuple[dict[str, Any], bool]:
    """Return what the hook is told, and whether it would be told it."""
    from ..hooks import HookIds, event_payload, tool_payload

    agent = runtime.config.agent.name
    if told.tool is None:
        facts = told.facts
        if facts is None and told.event == "UserPromptSubmit":
            facts = {"prompt": "an example"}
        payload = event_payload(told.event, cwd=cwd, agent=agent, ids=HookIds(), facts=facts)
        return payload, hook.subscribes(told.event)
    from .tools_explain import find_tool

    tool = find_tool(runtime.loaded, told.tool)
    call = await runtime.judge(tool.name, told.arguments, cwd=cwd)
    result = None
    if told.event != "PreToolUse":
        failed = told.event == "PostToolUseFailure"
        content = [{"type": "text", "text": "an example"}]
        result = told.result or {"content": content, "isError": failed}
    payload = event_payload(
        told.event,
        cwd=cwd,
        agent=agent,
        ids=HookIds(),
        tool=tool_payload(
            identity=tool.identity,
            name=tool.name,
            arguments=call.arguments,
            effects=call.effects,
            source=told.source,
            result=result,
        ),
    )
    return payload, hook.match(told.event, tool, call.arguments, call.effects) is not None


def _print(settings: Settings, data: dict[str, Any]) -> None:
    out = settings.output
    out.heading("what the hook is told")
    for line in json.dumps(data["payload"], indent=2, ensure_ascii=False).split("\n"):
        out.line(f"  {line}")
    out.line()
    if data["outcome"] is None:
        out.line("not run: no entry of its events matches; --force runs it all the same")
        return
    if not data["matches"]:
        out.line("no entry of its events matches; it was run since you said so", style="warning")
    out.heading(f"decision: {data['decision']} ({data['outcome']})")
    if data["error"]:
        out.line(f"  error:   {data['error']}")
    if data["message"]:
        out.line(f"  message: {data['message']}")
    out.line(f"  time:    {data['elapsed_ms']:.1f} ms")
