"""``raw completion``."""

from __future__ import annotations

import click

from .options import command

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell completion script.

    \b
    bash: eval "$(raw completion bash)"
    zsh:  eval "$(raw completion zsh)"
    fish: raw completion fish | source
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell!r}", ctx)
    name = root.info_name or "raw"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    click.echo(kind(root.command, {}, name, variable).source())
