"""The files of a new tool. They work as they are: ``check`` passes, and so does the test.

The example counts lines and words of a text file: it reads a file relative to
``context.cwd``, refuses bad arguments before anything happens, checks for an abort, and
reports an error of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["render_tool"]

_DESCRIPTION = (
    'Count the lines and words of one UTF-8 text file. Example: {"path":"notes.txt"}. '
    "Relative paths use the session cwd. The result is one line that names the file and both "
    "counts; a missing file is an error with code not_found. "
    "To count several files, make several calls."
)

_ESM_INDEX = """\
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";

// Runs before approval, in an engine without files or network: look at `args` only.
export function validateArgs(args) {
  if (!args.path.trim()) return 'path must name a file, for example {"path":"notes.txt"}';
  return undefined;
}

// Runs in the sandbox once the call is approved.
export async function handler(args, context) {
  if (context.signal?.aborted) return failure("aborted", "aborted");
  let text;
  try {
    text = await readFile(resolve(context.cwd, args.path), "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return failure("not_found", `${args.path}: no such file`);
    throw error;
  }
  const lines = text.split("\\n").length - (text.endsWith("\\n") || text === "" ? 1 : 0);
  const words = text.split(/\\s+/).filter(Boolean).length;
  return {
    isError: false,
    content: [{ type: "text", text: `${args.path}: ${lines} lines, ${words} words` }],
  };
}

function failure(code, text) {
  return { isError: true, code, content: [{ type: "text", text }] };
}
"""

_ESM_TEST = """\
// Runs every case of cases/ against the handler, without a sandbox: node --test
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "node:test";

import { handler, validateArgs } from "./index.mjs";

const cases = new URL("./cases/", import.meta.url);

for (const name of (await readdir(cases)).filter((name) => name.endsWith(".json")).sort()) {
  test(name, async (t) => {
    const { args, files = {}, expect } = JSON.parse(await readFile(new URL(name, cases), "utf8"));
    const cwd = await mkdtemp(join(tmpdir(), "case-"));
    t.after(() => rm(cwd, { recursive: true, force: true }));
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(cwd, path)), { recursive: true });
      await writeFile(join(cwd, path), text);
    }
    assert.equal(validateArgs(args), undefined);
    const { signal } = new AbortController();
    const context = { cwd, signal, maxOutputBytes: 8192, toolCallId: "case" };
    assert.deepEqual(await handler(args, context), expect);
  });
}

test("a path of spaces is refused before anything happens", () => {
  assert.match(validateArgs({ path: "  " }), /must name a file/);
});
"""

_PYTHON_INDEX = '''\
"""Count the lines and words of a text file."""

import os


def validate_args(args):
    """Runs before approval, where nothing can be written or sent: look at ``args`` only."""
    if not args["path"].strip():
        return 'path must name a file, for example {"path":"notes.txt"}'
    return None


def handler(args, context):
    """Runs in the sandbox once the call is approved. It may be ``async def``, too."""
    if context.signal.aborted:
        return failure("aborted", "aborted")
    try:
        with open(os.path.join(context.cwd, args["path"]), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return failure("not_found", f"{args['path']}: no such file")
    lines = text.count("\\n") + (text != "" and not text.endswith("\\n"))
    words = len(text.split())
    return {
        "isError": False,
        "content": [{"type": "text", "text": f"{args['path']}: {lines} lines, {words} words"}],
    }


def failure(code, text):
    return {"isError": True, "code": code, "content": [{"type": "text", "text": text}]}
'''

_PYTHON_TEST = '''\
"""Runs every case of cases/ against the handler, without a sandbox: python3 test_tool.py"""

import json
import pathlib
import sys
import tempfile
import types
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # a __pycache__ would change the tool's digest
sys.path.insert(0, str(FOLDER))

import index  # noqa: E402


class Cases(unittest.TestCase):
    def test_every_case_gives_its_expected_result(self):
        names = sorted(FOLDER.glob("cases/*.json"))
        self.assertTrue(names)
        for name in names:
            with self.subTest(name.name), tempfile.TemporaryDirectory() as cwd:
                case = json.loads(name.read_text(encoding="utf-8"))
                for path, text in case.get("files", {}).items():
                    target = pathlib.Path(cwd, path)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_text(text, encoding="utf-8")
                self.assertIsNone(index.validate_args(case["args"]))
                context = types.SimpleNamespace(
                    cwd=cwd,
                    signal=types.SimpleNamespace(aborted=False),
                    max_output_bytes=8192,
                    tool_call_id="case",
                )
                self.assertEqual(index.handler(case["args"], context), case["expect"])

    def test_a_path_of_spaces_is_refused_before_anything_happens(self):
        self.assertIn("must name a file", index.validate_args({"path": "  "}))


if __name__ == "__main__":
    unittest.main()
'''

_CASES: Mapping[str, Mapping[str, Any]] = {
    "cases/two_lines.json": {
        "args": {"path": "notes.txt"},
        "files": {"notes.txt": "ship the docs\nthen rest\n"},
        "expect": {
            "isError": False,
            "content": [{"type": "text", "text": "notes.txt: 2 lines, 5 words"}],
        },
    },
    "cases/missing_file.json": {
        "args": {"path": "missing.txt"},
        "files": {},
        "expect": {
            "isError": True,
            "code": "not_found",
            "content": [{"type": "text", "text": "missing.txt: no such file"}],
        },
    },
}


def render_tool(tool_id: str, language: str) -> dict[str, str]:
    """Return the files of a new tool by relative path.

    Args:
        tool_id: Folder name, ID and model-visible name.
        language: ``"esm"`` or ``"python"``.
    """
    esm = language == "esm"
    manifest = {
        "api_version": 2,
        "id": tool_id,
        "version": "0.1.0",
        "name": tool_id,
        "description": _DESCRIPTION,
        "input_schema": {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "File path, absolute or relative to the session cwd.",
                }
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        "entry": "./index.mjs" if esm else "./index.py",
    }
    files = {"tool.json": _json(manifest)}
    if esm:
        files |= {"index.mjs": _ESM_INDEX, "test.mjs": _ESM_TEST}
    else:
        files |= {"index.py": _PYTHON_INDEX, "test_tool.py": _PYTHON_TEST}
    return files | {path: _json(case) for path, case in _CASES.items()}


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
