"""Render the help of every command as Markdown, for the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from .options import COMMON_OPTIONS, Settings

__all__ = ["iter_commands", "render_reference"]


def iter_commands(
    command: click.Command | None = None, path: tuple[str, ...] = ("raw",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command with its path, groups before their members, in declared order."""
    if command is None:
        from .main import cli

        command = cli
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command, info_name=path[-1])
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            if found is not None:
                yield from iter_commands(found, (*path, name))


def render_reference(*, level: int = 2) -> str:
    """Return the reference of the command line.

    The common options are listed once, with ``raw`` itself.

    Args:
        level: Heading level of ``raw``; commands are one deeper per word.
    """
    parts = [_render(path, command, level) for path, command in iter_commands()]
    return "\n\n".join(parts) + "\n"


def _render(path: tuple[str, ...], command: click.Command, level: int) -> str:
    ctx = _context(path, command)
    usage = " ".join((ctx.command_path, *command.collect_usage_pieces(ctx)))
    parts = [
        f"{'#' * (level + len(path) - 1)} `{' '.join(path)}`",
        f"```\n{usage}\n```",
        *_paragraphs(command.help or ""),
    ]
    root = len(path) == 1
    rows = []
    for param in command.get_params(ctx):
        if isinstance(param, click.Argument) or ("--help" in param.opts and not root):
            continue
        if param.name in COMMON_OPTIONS and not root:
            continue
        record = param.get_help_record(ctx)
        if record is not None:
            rows.append(record)
    if rows:
        cells = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows]
        parts.append("\n".join(["| option | meaning |", "|---|---|", *cells]))
    return "\n\n".join(parts)


def _context(path: tuple[str, ...], command: click.Command) -> click.Context:
    ctx: click.Context | None = None
    for name in path[:-1]:
        ctx = click.Context(click.Group(name), parent=ctx, info_name=name, obj=Settings())
    return click.Context(command, parent=ctx, info_name=path[-1], obj=Settings())


def _paragraphs(text: str) -> Iterator[str]:
    r"""Yield Markdown paragraphs; one that starts with ``\b`` keeps its lines."""
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            yield "```\n" + block.removeprefix("\b").strip("\n") + "\n```"
        else:
            yield " ".join(block.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
