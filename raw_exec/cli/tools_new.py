"""``raw tools new``."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import click

from ..errors import ConfigError
from .options import Settings, command, settings_of

__all__ = ["new"]

_TEST_COMMAND = {"esm": "node --test test.mjs", "python": "python3 test_tool.py"}


@command("new")
@click.argument("tool_id", metavar="ID")
@click.option(
    "--lang",
    type=click.Choice(("esm", "python")),
    default="esm",
    show_default=True,
    help="Language of the handler: an ES module for Node, or Python.",
)
@click.option(
    "--root",
    type=click.Choice(("agent", "local")),
    help="Where tools are kept: beside the configuration file (agent), or with the user's "
    "own (local). Default: what ID says, else local.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(),
    metavar="PATH",
    help="Put the folder ID into this directory instead, for example a repository of tools.",
)
@click.pass_context
def new(
    ctx: click.Context, tool_id: str, lang: str, root: str | None, directory: str | None
) -> None:
    """Write a new tool folder that works as it is.

    ID is local/NAME, agent/NAME or NAME. The folder gets tool.json, the handler, cases/ with
    example calls, and a test that runs them. Nothing is ever overwritten.
    """
    from ..manifest.tool import TOOL_ID

    settings = settings_of(ctx)
    match = re.fullmatch(rf"(?:(local|agent)/)?({TOOL_ID.pattern})", tool_id)
    if match is None:
        raise click.BadParameter(
            f"{tool_id!r:.80} must be NAME, local/NAME or agent/NAME, with NAME like "
            "[a-z][a-z0-9_-]*",
            ctx,
            param_hint="'ID'",
        )
    prefix, name = match.groups()
    if prefix and root and prefix != root:
        raise click.UsageError(f"ID says {prefix!r} and --root says {root!r}", ctx)
    if directory and (prefix or root):
        raise click.UsageError("--dir puts the folder outside of the roots; give NAME only", ctx)
    source = prefix or root or "local"
    parent = Path(directory) if directory else _root(settings, source)
    folder = Path(os.path.abspath(parent)) / name
    files = _write(folder, name, lang)
    identity = None if directory else f"{source}/{name}"
    if settings.as_json:
        settings.output.json(
            {"identity": identity, "folder": str(folder), "language": lang, "files": files}
        )
        return
    settings.output.data(str(folder))
    _print_next_steps(settings, folder, name, identity, lang)


def _root(settings: Settings, source: str) -> Path:
    from ..config import config_path

    if source == "agent" and settings.config is not None:
        return Path(settings.config).parent / "tools"
    return config_path().parent / "tools"


def _write(folder: Path, name: str, lang: str) -> list[str]:
    from .templates import render_tool

    files = render_tool(name, lang)
    made = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        made = True
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(exist_ok=True)
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError as exc:
        raise ConfigError(
            "tool_exists",
            "exists already and is not overwritten",
            where=str(folder if folder.exists() else exc.filename),
            hint="choose another ID, or remove it first",
        ) from exc
    except OSError as exc:
        if made:
            shutil.rmtree(folder, ignore_errors=True)
        raise ConfigError(
            "tool_unwritable", f"can not be written: {exc.strerror}", where=str(folder)
        ) from exc
    return sorted(files)


def _print_next_steps(
    settings: Settings, folder: Path, name: str, identity: str | None, lang: str
) -> None:
    out = settings.output
    out.note("next:")
    out.note(f"  test it:    cd {_quoted(folder)} && {_TEST_COMMAND[lang]}")
    if identity is None:
        out.note(f"  check it:   raw tools check {_quoted(folder)}")
        out.note("  to call it, put the folder into a tool root (a link from there does not count)")
        return
    option = f"--config {_quoted(settings.config)} " if settings.config else ""
    out.note(f"  check it:   raw {option}tools check {identity}")
    out.note(f'  select it:  add "{identity}" to agents.<name>.tools.use')
    call = f"""raw {option}tools call {name} --args '{{"path":"notes.txt"}}'"""
    out.note(f"  call it:    {call}")


def _quoted(path: str | Path) -> str:
    import shlex

    return shlex.quote(str(path))
