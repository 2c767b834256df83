"""Tools for the tests of facades: one that echoes, one that waits for its abort, and a child."""

from __future__ import annotations

from pathlib import Path

import raw_exec
from toolbox import write_config, write_tool

ECHO = """
def handler(args, context):
    return {"content": [{"type": "text", "text": args["text"]}]}
"""
WAIT = """
import os


def handler(args, context):
    with open(os.path.join(context.cwd, "started-" + args["name"]), "w") as file:
        file.write(str(os.getpid()))
    context.signal.wait()
    while True:  # what it was asked for does not count: it has to be killed
        pass
"""
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def write_facade_config(root: Path, **fields: object) -> raw_exec.Config:
    """Write the tools ``echo`` and ``wait``, and return the loaded configuration."""
    write_tool(root, "echo", ECHO, language="python", schema=TEXT)
    write_tool(root, "wait", WAIT, language="python")
    (root / "cwd").mkdir(exist_ok=True)
    limits = {"grace_ms": 50}
    return raw_exec.load_config(write_config(root, ["echo", "wait"], limits=limits, **fields))
