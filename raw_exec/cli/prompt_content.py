"""``raw prompt version set-…``: the content of a draft beside its files and pins."""

from __future__ import annotations

from typing import Any

import click

from .arguments import read_arguments
from .options import settings_of
from .registry_access import (
    chosen_text,
    content_options,
    input_name,
    read_input,
    read_text,
    registry_command,
    show,
    use_registry,
)
from .registry_metadata import metadata_change, metadata_options

__all__ = [
    "delete_metadata",
    "set_metadata",
    "set_model_config",
    "set_output_schema",
    "set_readme",
]


@registry_command("set-metadata")
@click.argument("ref", metavar="@WS/NAME@draft")
@metadata_options
@click.pass_context
def set_metadata(
    ctx: click.Context,
    /,
    registry: str | None,
    ref: str,
    from_file: str | None,
    **keys: tuple[str, ...],
) -> None:
    """Set the metadata of a draft.

    Values are plain: texts, numbers, true and false. All changes happen in one step.
    """
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    change = metadata_change(from_file, keys)
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_metadata(
            named.workspace,
            named.name,
            str(named.version),
            set=change.values,
            delete=change.delete,
            replace=change.whole,
        )
    show(settings, changed, f"{changed.ref} has {len(changed.metadata)} metadata key(s)")


@registry_command("delete-metadata")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@click.pass_context
def delete_metadata(
    ctx: click.Context, registry: str | None, ref: str, keys: tuple[str, ...]
) -> None:
    """Remove keys from the metadata of a draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_metadata(
            named.workspace, named.name, str(named.version), delete=keys
        )
    show(settings, changed, f"{changed.ref} has {len(changed.metadata)} metadata key(s)")


@registry_command("set-output-schema")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.option("--file", "file", metavar="FILE", help="The schema; - is standard input.")
@click.option("--clear", is_flag=True, help="Remove it.")
@click.pass_context
def set_output_schema(
    ctx: click.Context, registry: str | None, ref: str, file: str | None, clear: bool
) -> None:
    """Set what a model has to answer with, on a draft."""
    from ..contracts.names import parse_ref
    from ..contracts.subset import parse_schema

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    if clear == (file is not None):
        raise click.UsageError("give --file" if not clear else "--clear takes no --file")
    schema = None if file is None else parse_schema(read_input(file), where=input_name(file))
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_output_schema(
            named.workspace, named.name, str(named.version), schema
        )
    done = "cleared" if schema is None else "set"
    show(settings, changed, f"{done} the output schema on {changed.ref}")


@registry_command("set-readme")
@click.argument("ref", metavar="@WS/NAME@draft")
@content_options
@click.pass_context
def set_readme(
    ctx: click.Context, registry: str | None, ref: str, content: str | None, file: str | None
) -> None:
    """Set the README of a draft."""
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    text = chosen_text(content, file)
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_readme(named.workspace, named.name, str(named.version), text)
    show(settings, changed, f"set the README on {changed.ref}")


@registry_command("set-model-config")
@click.argument("ref", metavar="@WS/NAME@draft")
@click.option("--provider", metavar="NAME", help="For example anthropic or openai.")
@click.option("--model", metavar="NAME", help="The provider's name for the model.")
@click.option("--parameters", metavar="JSON", help="A JSON object, @FILE, or - for standard input.")
@click.option(
    "--from-file",
    metavar="FILE",
    help="A YAML or JSON mapping with provider, model and parameters, as dump writes it.",
)
@click.pass_context
def set_model_config(
    ctx: click.Context,
    registry: str | None,
    ref: str,
    provider: str | None,
    model: str | None,
    parameters: str | None,
    from_file: str | None,
) -> None:
    """Say which model a draft is written for."""
    from ..contracts.errors import Invalid
    from ..contracts.model import Provider
    from ..contracts.names import parse_ref

    settings = settings_of(ctx)
    named = parse_ref(ref, kind="prompt", version="required")
    if from_file is not None:
        if provider or model or parameters:
            raise click.UsageError("--from-file and the other options exclude each other")
        chosen = _read_config(from_file)
    else:
        chosen = {
            "provider": provider,
            "model": model,
            "parameters": None if parameters is None else _read_object(parameters),
        }
    if not isinstance(chosen["provider"], str) or not isinstance(chosen["model"], str):
        raise click.UsageError("a model config has a provider and a model")
    words = [one.value for one in Provider]
    if chosen["provider"].upper() not in words:
        raise Invalid(
            "provider",
            f"provider {chosen['provider']!a:.60} is not known",
            hint=f"use one of {', '.join(words).lower()}",
        )
    with use_registry(settings, registry) as asked:
        changed = asked.set_prompt_model_config(
            named.workspace,
            named.name,
            str(named.version),
            provider=Provider(chosen["provider"].upper()),
            model=chosen["model"],
            parameters=chosen["parameters"],
        )
    show(settings, changed, f"set the model config on {changed.ref}")


def _read_config(file: str) -> dict[str, Any]:
    from ..contracts.yamltext import parse_yaml

    value = parse_yaml(read_text(file), what=input_name(file))
    unknown = sorted(set(value) - {"provider", "model", "parameters"})
    if unknown:
        raise click.UsageError(f"{input_name(file)} has the unknown key {unknown[0]!r:.60}")
    chosen: dict[str, Any] = {"provider": None, "model": None, "parameters": None}
    return chosen | value


def _read_object(text: str) -> dict[str, Any]:
    value = read_arguments(text, option="--parameters")
    if not isinstance(value, dict):
        raise click.UsageError("--parameters must be a JSON object")
    return value
