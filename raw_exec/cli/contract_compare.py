"""``raw contract check``, ``export`` and ``diff``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .failures import EXIT_VALIDATION
from .options import Settings, settings_of
from .registry_access import registry_command, show, use_registry, write_folder

if TYPE_CHECKING:
    from ..contracts.compare import Comparison

__all__ = ["check", "diff", "export"]

_STYLES = {"exact": "good", "compatible": "good", "incompatible": "error"}


@registry_command("check")
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.option("--as", "wire_name", metavar="NAME", help="The wire name of a pin with an alias.")
@click.option("--exact", is_flag=True, help="Fail for any difference, texts included.")
@click.pass_context
def check(
    ctx: click.Context,
    registry: str | None,
    folder: str,
    ref: str,
    wire_name: str | None,
    exact: bool,
) -> int:
    """Compare a tool folder with a contract.

    Compared are name, description and input schema. The folder fits exactly, or it is
    compatible: it takes every argument that the contract allows. What differs is listed by
    JSON Pointer. Nothing of the folder is run.

    Exit status: 0 when it fits, 3 when it does not.
    """
    from ..contracts.implementation import check_folder, load_folder
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    manifest = load_folder(Path(folder))
    with use_registry(settings, registry) as asked:
        found = asked.get_tool_version(tool.workspace, tool.name, tool.version)
    fit = check_folder(manifest, found, wire_name)
    if settings.as_json:
        settings.output.json(
            {
                "folder": os.path.abspath(folder),
                "contract": found.ref,
                "verdict": fit.verdict,
                "changes": _changes(fit.comparison),
            }
        )
    else:
        settings.output.line(f"{fit.verdict}: {folder} and {found.ref}", style=_STYLES[fit.verdict])
        _print(settings, fit.comparison)
    wanted = ("exact",) if exact else ("exact", "compatible")
    return 0 if fit.verdict in wanted else EXIT_VALIDATION


def _changes(comparison: Comparison) -> list[dict[str, Any]]:
    return [
        {
            "pointer": one.pointer,
            "kind": one.kind,
            "message": one.message,
            "effect": one.effect,
            "breaking": one.breaking,
        }
        for one in comparison.changes
    ]


def _print(settings: Settings, comparison: Comparison) -> None:
    for one in comparison.changes:
        word = "breaking" if one.breaking else one.effect
        style = "error" if one.breaking else None
        settings.output.line(f"  {word:<9} {one.pointer or '/'}: {one.message}", style=style)


@registry_command("export")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.option("--to", "folder", metavar="DIR", required=True, help="The new folder.")
@click.option(
    "--lang",
    type=click.Choice(("esm", "python")),
    default="esm",
    show_default=True,
    help="Language of the handler: an ES module for Node, or Python.",
)
@click.option("--as", "wire_name", metavar="NAME", help="The wire name of a pin with an alias.")
@click.pass_context
def export(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    folder: str,
    lang: str,
    wire_name: str | None,
) -> None:
    """Write a tool folder that fits a contract.

    Its handler only says that it is not written yet. The folder's name is the tool's ID.
    Nothing is overwritten.
    """
    from ..contracts.implementation import scaffold
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    name = os.path.basename(os.path.abspath(folder))
    with use_registry(settings, registry) as asked:
        found = asked.get_tool_version(tool.workspace, tool.name, tool.version)
    files = scaffold(found, name, lang, wire_name)
    root = write_folder(folder, files, force=False)
    value = {"folder": str(root), "contract": found.ref, "files": sorted(files)}
    show(settings, value, f"wrote {found.ref} to {root} ({len(files)} files)")
    settings.output.note(f"next: write the handler, then raw tools check {folder}")


@registry_command("diff")
@click.argument("old", metavar="@WS/NAME@VERSION")
@click.argument("new", metavar="@WS/NAME@VERSION")
@click.option("--fail-on-breaking", is_flag=True, help="Exit with 3 for a breaking change.")
@click.pass_context
def diff(
    ctx: click.Context, registry: str | None, old: str, new: str, fail_on_breaking: bool
) -> int:
    """Say what two versions differ in, and what breaks.

    Breaking is: arguments that the old version took may be refused by the new one, or results
    may occur that could not before. Changed texts never break, and are listed all the same.
    """
    from ..contracts.compare import compare_contracts
    from ..contracts.implementation import contract_face
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    refs = [parse_ref(text, version="required") for text in (old, new)]
    with use_registry(settings, registry) as asked:
        was, now = (asked.get_tool_version(one.workspace, one.name, one.version) for one in refs)
    compared = compare_contracts(contract_face(was), contract_face(now))
    if settings.as_json:
        settings.output.json(
            {
                "old": was.ref,
                "new": now.ref,
                "equal": compared.equal,
                "breaking": compared.breaking,
                "changes": _changes(compared),
            }
        )
    else:
        word = "breaking" if compared.breaking else "equal" if compared.equal else "not breaking"
        style = "error" if compared.breaking else "good"
        settings.output.line(f"{word}: {was.ref} to {now.ref}", style=style)
        _print(settings, compared)
    return EXIT_VALIDATION if fail_on_breaking and compared.breaking else 0
