"""``raw contract schema``."""

from __future__ import annotations

import json
from typing import Any

import click

from ..errors import ConfigError
from .lazy import LazyGroup
from .options import common_options, settings_of
from .registry_access import input_name, read_input, registry_command, show, use_registry

__all__ = ["get", "schema", "set_schema"]


@click.group(
    "schema",
    cls=LazyGroup,
    lazy={
        "get": ("contract_schema:get", "Print a schema of a version, or write it to a file."),
        "set": ("contract_schema:set_schema", "Check a schema here, then set it on a draft."),
    },
)
@common_options
def schema() -> None:
    """Read and set the schemas of a version."""


@registry_command("get")
@click.argument("ref", metavar="@WS/NAME@VERSION")
@click.option("--output", is_flag=True, help="The output schema instead of the input schema.")
@click.option("--file", "file", metavar="FILE", help="Write it there instead of printing it.")
@click.pass_context
def get(ctx: click.Context, registry: str | None, ref: str, output: bool, file: str | None) -> None:
    """Print a schema of a version, or write it to a file."""
    from ..contracts.errors import NotFound
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    with use_registry(settings, registry) as asked:
        found = asked.get_tool_version(tool.workspace, tool.name, tool.version)
    value = found.output_schema if output else found.input_schema
    if value is None:
        raise NotFound(
            "no_output_schema",
            f"{found.ref} has no output schema",
            hint="set one with `raw contract schema set --output`",
        )
    text = json.dumps(value, indent=2, sort_keys=True)
    if file is not None:
        _write(file, text + "\n")
        show(settings, {"file": file, "ref": found.ref}, f"wrote {file}")
    elif settings.as_json:
        settings.output.json(value)
    else:
        settings.output.data(text)


def _write(file: str, text: str) -> None:
    try:
        with open(file, "w", encoding="utf-8") as target:
            target.write(text)
    except OSError as exc:
        raise ConfigError(
            "file_unwritable", f"can not be written: {exc.strerror}", where=file
        ) from exc


@registry_command("set")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.option("--file", "file", metavar="FILE", help="The schema; - is standard input.")
@click.option("--output", is_flag=True, help="The output schema instead of the input schema.")
@click.option("--clear", is_flag=True, help="With --output: remove it.")
@click.pass_context
def set_schema(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    file: str | None,
    output: bool,
    clear: bool,
) -> None:
    """Check a schema here, then set it on a draft.

    Bindings are generated from a part of JSON Schema. What is outside of it is refused, with
    a JSON Pointer to each place, before anything is sent or a key is read.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    tool = parse_ref(ref, version="required")
    if clear and not output:
        raise click.UsageError("--clear is for the output schema; an input schema is required")
    if clear == (file is not None):
        raise click.UsageError("give --file" if not clear else "--clear takes no --file")
    what = "output" if output else "input"
    changes: dict[str, Any] = {f"{what}_schema": None if file is None else _read(file, output)}
    with use_registry(settings, registry) as asked:
        changed = asked.update_tool_version(tool.workspace, tool.name, str(tool.version), **changes)
    done = f"cleared the {what} schema on" if clear else f"set the {what} schema on"
    show(settings, changed, f"{done} {changed.ref}")


def _read(file: str, output: bool) -> dict[str, Any]:
    from ..contracts.errors import Invalid
    from ..contracts.subset import check_subset, parse_schema

    where = input_name(file)
    try:
        value: dict[str, Any] = parse_schema(read_input(file), where=where)
        check_subset(value, role="output" if output else "input")
    except Invalid as exc:
        exc.where = where
        raise
    return value
