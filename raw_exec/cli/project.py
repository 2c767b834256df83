"""``raw add``, ``install``, ``update``, ``remove`` and ``generate``: a project's prompts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failures import EXIT_CONFLICT
from .options import Settings, settings_of
from .registry_access import open_target, registry_command, show

if TYPE_CHECKING:
    from ..contracts.client import Registry
    from ..contracts.project import Installed, Project

__all__ = ["add", "generate", "install", "remove", "update"]


def _project_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--project",
        metavar="DIR",
        default=".",
        help="The folder with raw-contracts.json. Default: this one.",
    )(function)


@contextmanager
def _asking(
    settings: Settings, named: str | None, project: Project
) -> Iterator[Callable[[], Registry]]:
    """Yield a function that opens the registry once, when it is first needed."""
    opened: list[Registry] = []
    address = project.registry
    if address is not None and "://" not in address:
        address = str(project.root / address)

    def ask() -> Registry:
        if not opened:
            opened.append(open_target(settings, named, address))
        return opened[0]

    try:
        yield ask
    finally:
        for one in opened:
            one.close()


def _root(project: str) -> Path:
    return Path(os.path.abspath(project))


def _tell(settings: Settings, done: Sequence[Installed]) -> None:
    for one in done:
        for text in one.warnings:
            settings.output.warning(text)
    if settings.as_json:
        value = [
            {
                "name": one.key,
                "prompt": str(one.ref),
                "version": one.version,
                "state": one.state,
                "integrity": one.integrity,
                "warnings": list(one.warnings),
            }
            for one in done
        ]
        settings.output.json({"prompts": value})
        return
    for one in done:
        source = "" if one.key == str(one.ref) else f" = {one.ref}"
        settings.output.line(f"{one.key}{source}@{one.version} ({one.state})")


@registry_command("add")
@click.argument("ref", metavar="@WS/PROMPT[@VERSION]")
@click.option("--as", "key", metavar="@WS/NAME", help="What the project calls it.")
@click.option(
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    help="Also generate bindings there from now on: .py or .ts.",
)
@_project_option
@click.pass_context
def add(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    key: str | None,
    outputs: tuple[str, ...],
    project: str,
) -> None:
    """Add a prompt to the project, with the tools it pins.

    VERSION is a version, a constraint like ^1.0.0, or draft; without it, any published one.
    Writes raw-contracts.json, the lock and the cache; when the prompt can not be resolved,
    nothing is written. A server or file named by --registry is kept in a new project's file.
    """
    from ..contracts.names import parse_ref
    from ..contracts.project import Output, language_of, load_project, read_entry
    from ..contracts.project import add as add_entry

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt")
    constraint = "*" if named.version is None else named.version
    name = f"@{named.workspace}/{named.name}"
    entry = read_entry(key or name, f"{name}@{constraint}")
    root = _root(project)
    loaded = load_project(root, may_be_missing=True)
    for file in outputs:
        output = Output(language_of(file), file)
        loaded.output_path(output)
        if output not in loaded.outputs:
            loaded.outputs = (*loaded.outputs, output)
    if registry is not None and not loaded.path.exists():
        if registry.startswith(("http://", "https://")):
            loaded.registry = registry
        elif "://" not in registry:
            loaded.registry = os.path.relpath(registry, root)
    with _asking(settings, registry, loaded) as ask:
        done = add_entry(loaded, entry, ask)
    _tell(settings, [done])
    if loaded.outputs:
        settings.output.note("next: raw generate")


@registry_command("install")
@click.option("--frozen", is_flag=True, help="Fail when the lock is not up to date; for CI.")
@_project_option
@click.pass_context
def install(ctx: click.Context, registry: str | None, frozen: bool, project: str) -> None:
    """Install the project's prompts as the lock says.

    The registry is asked only for what the lock or the cache lacks. Content that is not what
    the lock says is refused.
    """
    from ..contracts.project import install as install_all
    from ..contracts.project import load_project

    settings = settings_of(ctx)
    loaded = load_project(_root(project))
    with _asking(settings, registry, loaded) as ask:
        done = install_all(loaded, ask, frozen=frozen)
    _tell(settings, done)
    settings.output.note(f"{len(done)} prompt(s) installed")


@registry_command("update")
@click.argument("names", metavar="[@WS/PROMPT]...", nargs=-1)
@_project_option
@click.pass_context
def update(ctx: click.Context, registry: str | None, names: tuple[str, ...], project: str) -> None:
    """Resolve constraints anew, of all prompts or of some.

    This is how drafts are fetched again.
    """
    from ..contracts.project import load_project
    from ..contracts.project import update as update_all

    settings = settings_of(ctx)
    loaded = load_project(_root(project))
    with _asking(settings, registry, loaded) as ask:
        done = update_all(loaded, ask, names)
    _tell(settings, done)


@registry_command("remove", asks=False)
@click.argument("name", metavar="@WS/PROMPT")
@_project_option
@click.pass_context
def remove(ctx: click.Context, name: str, project: str) -> None:
    """Remove a prompt from the project, its lock and its cache.

    Nobody is asked. Generate the bindings again afterwards.
    """
    from ..contracts.project import load_project
    from ..contracts.project import remove as remove_entry

    settings = settings_of(ctx)
    remove_entry(load_project(_root(project)), name)
    show(settings, {"removed": name}, f"removed {name}")


@registry_command("generate", asks=False)
@click.option(
    "--output",
    "outputs",
    metavar="FILE",
    multiple=True,
    help="Instead of the project's outputs: .py or .ts.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail when a file is out of date.")
@_project_option
@click.pass_context
def generate(ctx: click.Context, outputs: tuple[str, ...], check: bool, project: str) -> int:
    """Generate typed bindings from what is installed.

    Nobody is asked. The same lock gives the same bytes. Python needs pydantic, TypeScript
    needs zod.

    Exit status: 8 with --check when a file is out of date.
    """
    from ..contracts.project import Output, generate_bindings, language_of, load_project

    settings = settings_of(ctx)
    loaded = load_project(_root(project))
    chosen = [Output(language_of(file), file) for file in outputs]
    done = generate_bindings(loaded, chosen, check=check)
    if settings.as_json:
        value = [
            {"file": str(one.path), "language": one.language, "changed": one.changed}
            for one in done
        ]
        settings.output.json({"files": value})
    else:
        words = ("out of date", "up to date") if check else ("written", "unchanged")
        for one in done:
            settings.output.line(f"{one.path} ({words[0] if one.changed else words[1]})")
    return EXIT_CONFLICT if check and any(one.changed for one in done) else 0
