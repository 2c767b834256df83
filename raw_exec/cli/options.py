"""The options that every command takes, before or after its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from .output import Output

__all__ = ["COMMON_OPTIONS", "Command", "Settings", "command", "common_options", "settings_of"]

COMMON_OPTIONS = ("config", "agent", "as_json", "quiet", "verbose", "assume_yes")
"""Parameter names; help lists these apart from a command's own."""

_F = TypeVar("_F", bound="Callable[..., Any] | click.Command")


@dataclass(slots=True)
class Settings:
    """What the common options said.

    Args:
        config: Configuration file, or ``None`` for the implicit one.
        agent: Agent, or ``None`` for the configured one.
        as_json: Print exactly one JSON value.
        verbosity: -1 quiet, 0 normal, 1 and more verbose.
        assume_yes: Do not ask this program's own questions. Security: approvals that a rule
            asks for are not among them.
    """

    config: str | None = None
    agent: str | None = None
    as_json: bool = False
    verbosity: int = 0
    assume_yes: bool = False

    @property
    def output(self) -> Output:
        """Where this run prints."""
        return Output(self)


def settings_of(ctx: click.Context) -> Settings:
    """Return the settings of this run; all contexts of one run share them."""
    return ctx.ensure_object(Settings)


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # An option that is not given after the command must not undo one given before it.
    if value is None or value is False or value == 0:
        return
    settings = settings_of(ctx)
    if param.name == "quiet":
        settings.verbosity = -1
    elif param.name == "verbose":
        settings.verbosity = int(value)
    elif param.name is not None:
        setattr(settings, param.name, value)


def common_options(function: _F) -> _F:
    """Add the common options to a command or group."""
    decorators = (
        click.option(
            "--config",
            type=click.Path(),
            metavar="PATH",
            expose_value=False,
            callback=_store,
            help="Configuration file. Default: $XDG_CONFIG_HOME/raw/config.json, "
            "else ~/.config/raw/config.json.",
        ),
        click.option(
            "--agent",
            metavar="NAME",
            expose_value=False,
            callback=_store,
            help="Agent to use. Default: $RAW_AGENT, else default_agent of the configuration.",
        ),
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            expose_value=False,
            callback=_store,
            is_eager=True,
            help="Print exactly one JSON value on standard output, errors included.",
        ),
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=_store,
            help="No notes and no warnings.",
        ),
        click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=_store,
            help="More about what happened, on standard error.",
        ),
        click.option(
            "-y",
            "--yes",
            "assume_yes",
            is_flag=True,
            expose_value=False,
            callback=_store,
            help="Answer yes to this program's own questions. "
            "Never answers an approval that a rule asks for.",
        ),
    )
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


class Command(click.Command):
    """A command whose help lists the common options apart from its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write "Options", then "Common options"."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Argument):
                continue  # its meaning is in the text above
            record = param.get_help_record(ctx)
            if record is not None:
                (common if param.name in COMMON_OPTIONS else own).append(record)
        for title, records in (("Options", own), ("Common options", common)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command with the common options; its docstring is the help."""

    def decorate(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command)(common_options(function))

    return decorate
