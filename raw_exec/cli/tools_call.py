"""``raw tools call``."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ..limits import MAX_OUTPUT_BYTES
from .arguments import read_arguments
from .options import Settings, command, settings_of

if TYPE_CHECKING:
    from ..approval import Approver
    from ..dispatch import ToolResult

__all__ = ["call"]


@command("call")
@click.argument("name")
@click.option(
    "--args",
    "arguments",
    default="{}",
    show_default=True,
    metavar="JSON|@FILE|-",
    help="Arguments: a JSON object, a file with one, or - for standard input.",
)
@click.option(
    "--cwd",
    type=click.Path(),
    metavar="DIR",
    help="Directory that relative paths mean, and that the sandbox grants. Default: here.",
)
@click.option(
    "--approve",
    type=click.Choice(("allow", "deny", "ask")),
    default="ask",
    show_default=True,
    help="Answer for calls that a rule sends to approval. 'ask' asks at the terminal; "
    "without one the call is refused. -y answers nothing here.",
)
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Wall time of the handler; at most, and by default, limits.call_ms.",
)
@click.option(
    "--max-output-bytes",
    type=click.IntRange(1, MAX_OUTPUT_BYTES),
    metavar="BYTES",
    help="Budget of text and JSON in the result. Default: the agent's, else 8192.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Run the handler for real on a copy-on-write view of the files it may write, show "
    "what it changed there, and commit nothing.",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Append a record of the call to FILE, one JSON object a line. Arguments are not in it.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Keep the session in FILE (SQLite, made with mode 0600): the call, its panels, its "
    "questions.",
)
@click.option(
    "--session",
    metavar="ID",
    help="Name of the session in --history; taken up where it was left. Default: a new one.",
)
@click.pass_context
def call(
    ctx: click.Context,
    name: str,
    arguments: str,
    cwd: str | None,
    approve: str,
    timeout: float | None,
    max_output_bytes: int | None,
    dry_run: bool,
    audit: str | None,
    history: str | None,
    session: str | None,
) -> int:
    """Call a tool and print its result.

    NAME is the model-visible name, or the identity (local/word_count). The call goes through
    every step of a model's call: schema, validateArgs, effects, rules, approval, and then the
    handler in its sandboxed worker. The text of the result goes to standard output, what the
    handler printed to standard error. With --json the whole outcome is printed:
    content, is_error, code, stage, enforced, usage and elapsed_ms among others.

    A tool with panels is called in a session of its own: its panels are drawn in place on
    standard error, when that is a terminal, and its questions are asked there. Without a
    terminal they fail with interaction_unavailable at once, which is exit status 4.

    With --dry-run the list of changes to files and a diff of text files follow the result; with
    --json they are changes and diff. Only files are held back: what the handler does over the
    network, where its profile grants that, is done.
    """
    from ..dispatch import exit_status

    settings = settings_of(ctx)
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise click.BadParameter("must be over 0 seconds", ctx, param_hint="'--timeout'")
    if session is not None and history is None:
        raise click.UsageError("--session needs --history, which is where sessions are kept", ctx)
    kept = _Kept(audit, history, session)
    options = {
        "timeout_seconds": timeout,
        "max_output_bytes": max_output_bytes,
        "dry_run": dry_run,
    }
    result = _dispatch(settings, name, read_arguments(arguments), cwd, approve, options, kept)
    if settings.as_json:
        settings.output.json(result.as_dict())
    else:
        _print(settings, result)
    return exit_status(result)


def _dispatch(
    settings: Settings,
    name: str,
    arguments: Any,
    cwd: str | None,
    approve: str,
    options: dict[str, Any],
    kept: _Kept,
) -> ToolResult:
    from ..config import load_config
    from ..runtime import open_runtime
    from .asking import fixed_approver, terminal_approver
    from .panel_screen import ScreenAdapter, open_screen
    from .running import run_async

    config = load_config(settings.config, agent=settings.agent)
    if not settings.as_json:
        for text in config.warnings:
            settings.output.warning(text)
    approver: Approver | None
    approver = terminal_approver() if approve == "ask" else fixed_approver(approve == "allow")

    async def run() -> ToolResult:
        with open_screen(wanted=settings.verbosity >= 0) as screen:
            async with open_runtime(
                config,
                cwd=cwd or ".",
                approve=approver,
                audit=kept.audit,
                history=kept.history,
                interact=ScreenAdapter(screen),
            ) as runtime:
                tool = runtime.loaded.by_identity(name) or runtime.loaded.get(name)
                called = name if tool is None else tool.name
                # A server may have a question or a panel that nobody declared.
                plain = tool is None or not (tool.manifest.panels or tool.mcp)
                if kept.history is None and plain:
                    return await runtime.dispatch(called, arguments, **options)
                async with runtime.open_session(
                    kept.session,
                    resume=kept.session is not None,
                    on_panel=None if screen is None else screen.show,
                ) as session:
                    return await session.dispatch(called, arguments, **options)

    return run_async(run)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where records of the call go."""

    audit: str | None
    history: str | None
    session: str | None


def _print(settings: Settings, result: ToolResult) -> None:
    out = settings.output
    for stream, text in result.logs.items():
        for line in text.rstrip("\n").split("\n"):
            out.note(f"[{stream}] {line}")
    for receipt in result.hooks:
        if receipt.outcome == "warned":
            out.warning(f"hook {receipt.hook} ({receipt.event}): {receipt.message}")
        elif receipt.message and not receipt.stops:
            out.note(f"[hook {receipt.hook}] {receipt.message}")
        else:
            out.detail(f"hook {receipt.hook}: {receipt.outcome}, {receipt.elapsed_ms:.1f} ms")
    if result.is_error and result.origin == "host":
        out.error(result.text or f"refused with {result.code}", hints=result.hints)
    else:
        for block in result.content:
            out.data(_block_text(block))
        if result.is_error:
            out.error("the tool returned an error" + (f": {result.code}" if result.code else ""))
    if result.committed is not None:
        _print_changes(settings, result)
    out.detail(f"code {result.code or 'none'}, stage {result.stage}, {result.elapsed_ms:.1f} ms")
    if result.enforced:
        facts = ", ".join(f"{key}={_short(value)}" for key, value in result.enforced.items())
        out.detail(f"enforced: {facts}")
    if result.usage:
        out.detail("usage: " + ", ".join(f"{k}={_short(v)}" for k, v in result.usage.items()))


def _print_changes(settings: Settings, result: ToolResult) -> None:
    """Print what the call changed: all of it for a dry run, else what is worth a warning."""
    out = settings.output
    count = int(result.usage.get("changes", len(result.changes)))
    undeclared = result.detail.get("drift", {}).get("undeclared_count", 0)
    if result.diff is None:
        if undeclared and not result.is_error:
            out.warning(f"{undeclared} changes to files were not declared; --json lists them")
        out.detail(f"{count} changes to files, {'' if result.committed else 'not '}committed")
        return
    changes = "change" if count == 1 else "changes"
    out.line(f"dry run: {count or 'no'} {changes} to files, none committed", style="bold")
    for item in result.changes:
        mark = ", not declared" if "drift" in result.detail and not item["declared"] else ""
        out.line(f"  {item['action']:8} {item['path']} ({item['kind']}{mark})")
    if count > len(result.changes):
        out.line(f"  … and {count - len(result.changes)} more")
    if result.diff:
        out.data(result.diff.rstrip("\n"))


def _block_text(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    if block["type"] == "json":
        return json.dumps(block["value"], indent=2, ensure_ascii=False)
    kind, data = block.get("mimeType", "image"), block.get("data", "")
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{kind}, {size} bytes; --json prints it]"


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(str, value)) or "none"
    return str(value)
