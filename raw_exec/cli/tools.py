"""``raw tools``."""

from __future__ import annotations

import click

from .lazy import LazyGroup
from .options import common_options

__all__ = ["tools"]


@click.group(
    "tools",
    cls=LazyGroup,
    lazy={
        "list": ("tools_list:list_tools", "List the selected tools."),
        "definitions": (
            "tools_definitions:definitions",
            "Print what to send to a model provider as its list of tools.",
        ),
        "new": ("tools_new:new", "Write a new tool folder that works as it is."),
        "check": ("tools_check:check", "Check tools without running their handlers."),
        "call": ("tools_call:call", "Call a tool and print its result."),
        "verify": (
            "tools_verify:verify",
            "Run the cases a tool ships and check its declared effects.",
        ),
        "explain": ("tools_explain:explain", "Say what a tool may do and what would happen."),
    },
)
@common_options
def tools() -> None:
    """List, write, check, call, verify and explain tools."""
