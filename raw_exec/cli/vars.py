"""``raw vars``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .failures import report
from .lazy import LazyGroup
from .options import Settings, command, common_options, settings_of

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["get", "list_vars", "vars_group"]

_EXIT_UNRESOLVED = 1


@click.group(
    "vars",
    cls=LazyGroup,
    lazy={
        "list": ("vars:list_vars", "List the selected variables; runs nothing."),
        "get": ("vars:get", "Resolve a variable and print it as JSON."),
    },
)
@common_options
def vars_group() -> None:
    """List and read the variables of an agent."""


@command("list")
@click.pass_context
def list_vars(ctx: click.Context) -> None:
    """List the selected variables; runs nothing.

    In the agent's order: name, type, access and description. No value is shown, and no
    source is touched.
    """
    from ..variables import describe_variables

    settings = settings_of(ctx)
    rows = describe_variables(_load(settings))
    if settings.as_json:
        settings.output.json({"vars": rows})
    elif rows:
        settings.output.table(
            ("NAME", "TYPE", "ACCESS", "DESCRIPTION"),
            [(row["name"], row["type"], row["access"], row["description"]) for row in rows],
        )
    else:
        settings.output.note("no variables are selected; add names to vars of the agent")


@command("get")
@click.argument("name")
@click.pass_context
def get(ctx: click.Context, name: str) -> int:
    """Resolve a variable and print it as JSON.

    Prints {name, value, observed_at, cached}, with and without --json. A provider runs in
    its sandbox, as it does for a tool. A variable whose access is 'use' is not shown.

    Exit status: 0 ok, 1 not selected, not readable or not resolved, 2 configuration,
    130 interrupted.
    """
    from ..variables import VariableError
    from .running import run_async

    settings = settings_of(ctx)
    config = _load(settings)
    try:
        resolved = run_async(lambda: _read(config, name))
    except VariableError as exc:
        report(exc, settings)
        return _EXIT_UNRESOLVED
    settings.output.json(resolved)
    return 0


def _load(settings: Settings) -> Config:
    from ..config import load_config

    config = load_config(settings.config, agent=settings.agent)
    if not settings.as_json:
        for text in config.warnings:
            settings.output.warning(text)
    return config


async def _read(config: Config, name: str) -> dict[str, Any]:
    from ..pool import open_launcher
    from ..private_root import open_private_root
    from ..variables import open_variables

    with open_private_root() as root:
        async with (
            open_launcher(scratch_parent=root) as launcher,
            open_variables(config, launcher) as variables,
        ):
            return (await variables.read(name)).as_dict()
