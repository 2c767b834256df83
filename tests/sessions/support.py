"""Sessions of a configuration in a folder, and tools for them in both languages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import raw_exec
from raw_exec.sessions import Session
from requires import require_node
from toolbox import write_config, write_tool

SECONDS = 60
PANELS: list[dict[str, Any]] = [{"id": "p", "title": "P"}]
PANEL = "agent/t#p"
DOC: dict[str, Any] = {"blocks": [{"id": "b", "kind": "markdown", "text": "hello"}]}
LANGUAGES = ("python", "esm")

# Runs a list of steps and says what each came to: the value, or the code of the error.
STEPS = {
    "python": """
import os

def handler(args, context):
    out = []
    for step in args['steps']:
        try:
            if step[0] == 'wait':
                with open(os.path.join(context.cwd, step[1])) as gate:
                    out.append(gate.read())
            elif step[0] == 'ask':
                out.append(context.interactions.request(step[1])['answers'])
            elif step[0] == 'get':
                found = context.panels.get(step[1])
                out.append(found and [found['revision'], found['document']])
            else:
                out.append(context.panels.update(step[1], step[2]))
        except Exception as error:
            if not hasattr(error, 'code'):
                raise
            out.append(error.code)
    while args.get('hang'):
        pass
    return {'content': [{'type': 'json', 'value': out}]}
""",
    "esm": """
import fs from 'node:fs/promises';
import path from 'node:path';

export async function handler(args, context) {
  const out = [];
  for (const step of args.steps) {
    try {
      if (step[0] === 'wait') {
        out.push(await fs.readFile(path.join(context.cwd, step[1]), 'utf8'));
      } else if (step[0] === 'ask') {
        out.push((await context.interactions.request(step[1])).answers);
      } else if (step[0] === 'get') {
        const found = await context.panels.get(step[1]);
        out.push(found && [found.revision, found.document]);
      } else {
        out.push(await context.panels.update(step[1], step[2]));
      }
    } catch (error) {
      if (error.code === undefined) throw error;
      out.push(error.code);
    }
  }
  while (args.hang);
  return { content: [{ type: 'json', value: out }] };
}
""",
}
BLOCKS = """
def handler(args, context):
    return {'content': args['content'], 'isError': bool(args.get('isError'))}
"""


def steps_tool(
    root: Path,
    language: str = "python",
    name: str = "t",
    panels: list[dict[str, Any]] = PANELS,
) -> None:
    """Write the tool that runs steps."""
    if language == "esm":
        require_node()
    write_tool(root, name, STEPS[language], language=language, panels=panels)


def blocks_tool(root: Path, **panel: Any) -> None:
    """Write a tool that returns what it is given, with one panel; select it."""
    write_tool(root, "t", BLOCKS, language="python", panels=[{**PANELS[0], **panel}])
    write_config(root, ["t"])


def replace(document: Mapping[str, Any] = DOC) -> dict[str, Any]:
    return {"op": "replace", "document": document}


def block(document: Mapping[str, Any] = DOC) -> dict[str, Any]:
    return {"type": "panel", "panel": "p", **replace(document)}


def document_of(size: int) -> dict[str, Any]:
    """Return a document that is ``size`` bytes as compact JSON."""
    blocks = [{"id": f"b{n}", "kind": "markdown", "text": "x" * 13_000} for n in range(4)]
    blocks.append({"id": "last", "kind": "markdown", "text": ""})
    document = {"blocks": blocks}
    blocks[-1]["text"] = "x" * (size - len(json.dumps(document, separators=(",", ":"))))
    return document


def question(**options: Any) -> dict[str, Any]:
    """Return a question for a text ``a`` in panel ``p``."""
    form = {"id": "f", "kind": "form", "fields": [{"id": "a", "label": "?", "kind": "text"}]}
    return {"panel": "p", "document": {"title": "Really?", "blocks": [form]}, **options}


@asynccontextmanager
async def opened(
    root: Path, *, history: Path | None = None, resume: bool = False, **options: Any
) -> AsyncIterator[Session]:
    """Open a session ``s`` of the configuration in ``root``."""
    config = raw_exec.load_config(root / "config.json")
    on_panel = options.pop("on_panel", None)
    async with (
        raw_exec.open_runtime(config, cwd=root, history=history, **options) as runtime,
        runtime.open_session("s", on_panel=on_panel, resume=resume) as session,
    ):
        yield session


async def steps(session: Session, *todo: Any, **options: Any) -> list[Any]:
    """Run steps in one call, and return what each came to."""
    result = await session.dispatch("t", {"steps": list(todo)}, **options)
    assert not result.is_error, result.text
    value: list[Any] = result.content[0]["value"]
    return value
