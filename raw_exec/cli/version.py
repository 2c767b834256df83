"""``raw version``."""

from __future__ import annotations

import platform

import click

from .options import command, settings_of

__all__ = ["version"]


@command("version")
@click.pass_context
def version(ctx: click.Context) -> None:
    """Print the version.

    With -v also the versions of Python and of the platform.
    """
    from raw_exec import __version__

    settings = settings_of(ctx)
    if settings.as_json:
        settings.output.json(
            {
                "version": __version__,
                "python": platform.python_version(),
                "platform": platform.platform(),
            }
        )
        return
    click.echo(f"raw {__version__}")
    settings.output.detail(f"python {platform.python_version()} on {platform.platform()}")
