"""The ``raw`` command."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from .failures import EXIT_INTERRUPTED, report, report_usage
from .lazy import LazyGroup
from .options import Settings, common_options, settings_of
from .output import OutputLost, guarded_stdout

__all__ = ["cli", "main"]


class RootGroup(LazyGroup):
    """The root: turns whatever a command raised into one report and an exit status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode, end with ``SystemExit``."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        arguments = list(sys.argv[1:] if args is None else args)
        _open_missing_streams()
        for stream in (sys.stdout, sys.stderr):
            # A locale without UTF-8 must not turn an answer into a traceback.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        settings = Settings()
        status = EXIT_INTERRUPTED
        try:
            with guarded_stdout():
                status = self._run(arguments, prog_name, complete_var, settings, extra)
                sys.stdout.flush()
        except OutputLost as exc:
            # The interpreter must not complain at exit about what is still in the buffer.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            settings.as_json = False
            # A reader that is gone has what it wanted.
            status = 1 if exc.reader_is_gone else report(exc, settings)
        sys.exit(status)

    def _run(
        self,
        arguments: list[str],
        prog_name: str | None,
        complete_var: str | None,
        settings: Settings,
        extra: dict[str, Any],
    ) -> int:
        try:
            value = super().main(
                list(arguments),
                prog_name or "raw",
                complete_var,
                standalone_mode=False,
                **{"obj": settings, **extra},
            )
        except click.exceptions.NoArgsIsHelpError as exc:
            click.echo(exc.ctx.get_help() if exc.ctx else self.get_help(click.Context(self)))
            return 0
        except click.ClickException as exc:
            # The option may stand after the mistake, where it has not been looked at.
            settings.as_json = settings.as_json or _asks_for_json(arguments)
            ctx = getattr(exc, "ctx", None)
            hint = f"see: {ctx.command_path} --help" if ctx is not None else None
            return report_usage(exc.format_message(), hint, settings)
        except (click.Abort, KeyboardInterrupt):
            return report(KeyboardInterrupt(), settings)
        except OutputLost:
            raise
        except Exception as exc:
            return report(exc, settings)
        return value if isinstance(value, int) else 0


def _open_missing_streams() -> None:
    """Give a process that was started without standard output or error a place to write to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _asks_for_json(arguments: list[str]) -> bool:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from raw_exec import __version__

    settings = settings_of(ctx)
    if settings.as_json:
        settings.output.json({"version": __version__})
    else:
        click.echo(f"raw {__version__}")
    ctx.exit(0)


@click.group(
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    lazy={
        "tools": ("tools:tools", "List, write, check, call, verify and explain tools."),
        "config": ("config:config", "Write and show the configuration."),
        "vars": ("vars:vars_group", "List and read the variables of an agent."),
        "hooks": ("hooks:hooks", "List, check and try the hooks of an agent."),
        "panels": ("panels:panels", "Look at the panels that a session kept."),
        "contract": ("contract:contract", "Author tool contracts, and compare tools with them."),
        "prompt": ("prompt:prompt", "Author prompts, and pin tool contracts to them."),
        "add": ("project:add", "Add a prompt to the project, with the tools it pins."),
        "install": ("project:install", "Install the project's prompts as the lock says."),
        "update": ("project:update", "Resolve constraints anew, of all prompts or of some."),
        "remove": ("project:remove", "Remove a prompt from the project, its lock and its cache."),
        "generate": ("project:generate", "Generate typed bindings from what is installed."),
        "registry": ("registry:registry", "Serve a registry of tool contracts, and administer it."),
        "mcp": ("mcp:mcp", "Serve the agent's tools to any MCP client."),
        "serve": ("serve:serve", "Serve the agent's tools to other programs."),
        "doctor": ("doctor:doctor", "Show what this host can enforce, and what is missing."),
        "completion": ("completion:completion", "Print a shell completion script."),
        "version": ("version:version", "Print the version."),
    },
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
@common_options
def cli() -> None:
    """Run tools that somebody else wrote, without trusting them.

    Every handler runs in a sandboxed worker process, and none before its call is approved.

    \b
    Exit status: 0 ok, 1 the tool returned an error, 2 usage or configuration,
    3 validation, 4 refused by policy or approval, 5 worker crash or protocol,
    6 timeout or limit, 7 sandbox unavailable, 8 conflict (registry or commit),
    130 interrupted.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    prog = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "raw"
    if prog not in ("raw", "raw-exec"):
        prog = "raw"
    cli.main(args, prog_name=prog)
    raise AssertionError("unreachable")
