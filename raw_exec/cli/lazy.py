"""Groups whose commands are imported when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from .options import COMMON_OPTIONS

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group that knows its commands by module name and summary only.

    Args:
        lazy: Command name to ``(module:attribute, summary)``. The summary is repeated here
            so that a group's help imports nothing; a test compares the two.
    """

    def __init__(
        self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy: Mapping[str, tuple[str, str]] = lazy or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order they are declared."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        target = self.lazy.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target[0].partition(":")
        found = getattr(importlib.import_module(f"raw_exec.cli.{module}"), attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{target[0]} is not a command")
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from their stored summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.lazy.items()])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options, then commands."""
        records = [(param.name, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        rows = [record for _, record in records if record is not None]
        if any(name in COMMON_OPTIONS for name, _ in records):
            title = "Options (before or after a command)"
        else:
            title = "Options"
        with formatter.section(title):
            formatter.write_dl(rows)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0] if args else ""
        if name and name not in self.lazy and not name.startswith("-"):
            from ..fields import did_you_mean

            hint = did_you_mean(name, self.lazy)
            ctx.fail(f"no such command {name!r:.60}{hint}")
        return super().resolve_command(ctx, args)
