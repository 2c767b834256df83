"""Compare an outcome, and what is in the folder afterwards, with what a case expects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..dispatch import ToolResult
from ..jsontext import JsonTextError, read_regular_file
from ..values import escape_pointer
from .case import Expectation, ExpectedFile
from .folder import MAX_READ_BYTES, Node
from .matching import same_json, shorten
from .report import Finding

__all__ = ["compare_described", "compare_files", "compare_outcome", "put_cwd", "take_out_cwd"]

CWD = "$CWD"


def put_cwd(value: Any, cwd: str) -> Any:
    """Replace ``$CWD`` at the start of every string of a JSON value."""
    if isinstance(value, str):
        if value == CWD or value.startswith(f"{CWD}/"):
            return cwd + value[len(CWD) :]
        return value
    if isinstance(value, dict):
        return {key: put_cwd(item, cwd) for key, item in value.items()}
    if isinstance(value, list):
        return [put_cwd(item, cwd) for item in value]
    return value


def take_out_cwd(value: Any, cwd: str) -> Any:
    """Replace the case's folder by ``$CWD`` wherever a JSON value names it."""
    if isinstance(value, str):
        return value.replace(cwd, CWD)
    if isinstance(value, dict):
        return {key.replace(cwd, CWD): take_out_cwd(item, cwd) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [take_out_cwd(item, cwd) for item in value]
    return value


def compare_outcome(expect: Expectation, result: ToolResult, cwd: str) -> Iterator[Finding]:
    """Yield what about an outcome is not as expected."""
    content = take_out_cwd(result.content, cwd)
    said = " ".join(block["text"] for block in content if block["type"] == "text")
    if result.is_error and result.origin == "host" and result.code != expect.code:
        text = f"the host ended the call with {result.code} (stage {result.stage}): {said}"
        yield Finding("host", text, "/expect/code" if expect.says_code else "/expect")
        return
    if result.is_error != expect.is_error:
        wanted = "an error" if expect.is_error else "no error"
        got = f"an error{f' {result.code!r}' if result.code else ''}" if result.is_error else "none"
        yield Finding("result", f"wanted {wanted}, got {got}: {shorten(said)}", "/expect/isError")
    if expect.says_code and result.code != expect.code:
        yield Finding("code", f"code is {result.code!r}, not {expect.code!r}", "/expect/code")
    if expect.content is None:
        return
    if len(content) != len(expect.content):
        text = f"has {len(content)} blocks, not {len(expect.content)}: {shorten(content)}"
        yield Finding("content", f"content {text}", "/expect/content")
        return
    for index, (match, block) in enumerate(zip(expect.content, content, strict=True)):
        problem = match.problem(block)
        if problem is not None:
            yield Finding("content", f"block {index}: {problem}", f"/expect/content/{index}")


def compare_described(expect: Expectation, effects: Any, cwd: str) -> Iterator[Finding]:
    """Yield a finding when the described effects are not the expected ones."""
    if not expect.says_effects:
        return
    actual = take_out_cwd(effects, cwd)
    if not same_json(expect.effects, actual):
        text = f"effects are {shorten(actual)}, not {shorten(expect.effects)}"
        yield Finding("effects", text, "/expect/effects")


def compare_files(
    expect: Expectation, after: Mapping[str, Node], folder: Path
) -> Iterator[Finding]:
    """Yield what about the folder is not as expected."""
    for path, wanted in expect.files.items():
        problem = _file_problem(wanted, after.get(path), folder / path)
        if problem is not None:
            yield Finding("files", f"{path!r} {problem}", f"/expect/files/{escape_pointer(path)}")


def _file_problem(wanted: ExpectedFile, node: Node | None, path: Path) -> str | None:
    if wanted.kind == "absent":
        return None if node is None else f"is there: a {node.kind}"
    if node is None:
        return "is not there"
    if node.kind != wanted.kind:
        return f"is a {node.kind}, not a {wanted.kind}"
    if wanted.mode is not None and node.mode != wanted.mode:
        return f"has mode {node.mode:o}, not {wanted.mode:o}"
    if wanted.kind == "symlink":
        if node.target == wanted.target:
            return None
        return f"leads to {shorten(node.target)}, not {shorten(wanted.target)}"
    if wanted.data is not None:
        if node.sha256 == hashlib.sha256(wanted.data).hexdigest():
            return None
        return _content_problem(wanted.data, path)
    if wanted.text is not None:
        text = _read_text(path)
        return "is not UTF-8" if text is None else wanted.text.problem(text)
    return None


def _content_problem(wanted: bytes, path: Path) -> str:
    text = _read_text(path)
    try:
        expected = wanted.decode("utf-8")
    except UnicodeDecodeError:
        expected = None
    if text is None or expected is None:
        return f"has other bytes than expected ({len(wanted)} bytes were)"
    return f"holds {shorten(text)}, not {shorten(expected)}"


def _read_text(path: Path) -> str | None:
    """Read a file as UTF-8; whoever left it, it is opened without following links."""
    try:
        mode = os.lstat(path).st_mode
        if not mode & 0o400:
            path.chmod(mode & 0o7777 | 0o400)
        data = read_regular_file(str(path), MAX_READ_BYTES, follow_symlinks=False)
        return data.decode("utf-8")
    except (OSError, JsonTextError, UnicodeDecodeError):
        return None
