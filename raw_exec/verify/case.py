"""One case of a tool: a call, the files it starts from, and what must come of it.

Rules:

1. A case is strict JSON, one object a file. Whatever is wrong with it is reported with line
   and column, and then it is not run.
2. Paths are relative to the folder the call runs in. ``$CWD`` stands for that folder: at the
   start of a string in ``args``, and wherever it appears in a result or in effects.
3. What a case does not say is not compared, with one exception: a call that the host ends
   (refused, timed out, crashed) passes only where ``code`` names how.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from ..errors import ManifestError, first_problem
from ..fields import Cursor, Document
from ..jsontext import JsonTextError, parse
from ..limits import MAX_MANIFEST_BYTES, MAX_OUTPUT_BYTES
from ..values import freeze
from .matching import BlockMatch, TextMatch, check_block, check_text_match

__all__ = ["Case", "Expectation", "ExpectedFile", "StartFile", "parse_case"]

MAX_FILES: Final = 4096
MAX_PATH_CHARS: Final = 1024
MAX_NAME_BYTES: Final = 255
MAX_TIMEOUT_MS: Final = 10 * 60 * 1000
MAX_BLOCKS: Final = 1024
MAX_CODE_CHARS: Final = 128
_MODE = re.compile(r"0?[0-7]{3}")
_FIELDS = (
    "args",
    "files",
    "expect",
    "description",
    "timeout_ms",
    "approve",
    "max_output_bytes",
)
_EXPECT = ("isError", "is_error", "code", "content", "files", "effects")
_FILE_FORMS = ("text", "base64", "symlink", "directory", "mode")


@dataclass(frozen=True, slots=True)
class StartFile:
    """What is at a path before the call.

    Args:
        kind: ``"file"``, ``"directory"`` or ``"symlink"``.
        data: Bytes of a file.
        target: Of a symlink, as written; it may lead anywhere, which the sandbox judges.
        mode: Permission bits, when the case says.
    """

    kind: str
    data: bytes = b""
    target: str = ""
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What must be at a path after the call.

    Args:
        kind: ``"absent"``, ``"file"``, ``"directory"`` or ``"symlink"``.
        data: Exact bytes of a file; ``None`` when ``text`` or nothing says.
        text: Partial match of a file that is UTF-8.
    """

    kind: str
    data: bytes | None = None
    text: TextMatch | None = None
    target: str = ""
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must come of the call.

    Args:
        is_error: As the outcome says it.
        code: The outcome's code; ``None`` is "no code".
        says_code: Whether ``code`` is compared at all.
        content: One match per block, or ``None`` to not look.
        effects: The described effects, exactly; compared when ``says_effects``.
    """

    is_error: bool = False
    code: str | None = None
    says_code: bool = False
    content: tuple[BlockMatch, ...] | None = None
    files: Mapping[str, ExpectedFile] = field(default_factory=lambda: MappingProxyType({}))
    effects: Any = None
    says_effects: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One checked case.

    Args:
        name: File name without ``.json``.
        path: Where it stands, for messages.
        text: Its text, so that a failure can name a line.
        args: Arguments of the call, frozen; ``$CWD`` is not replaced yet.
        approve: The answer when a rule asks: ``"allow"``, ``"deny"``, or ``"none"`` when
            nobody is there.
        timeout_ms: Wall time of the handler; ``None`` is the configured limit.
        max_output_bytes: Budget of text and JSON; ``None`` is the agent's.
    """

    name: str
    path: str
    text: str
    args: Any
    files: Mapping[str, StartFile]
    expect: Expectation
    description: str = ""
    timeout_ms: int | None = None
    approve: Literal["allow", "deny", "none"] = "allow"
    max_output_bytes: int | None = None


def parse_case(data: bytes | str, *, name: str, where: str) -> Case:
    """Read one case file.

    Raises:
        ManifestError: ``case_invalid``, with every problem, its line and column.
    """
    try:
        value = parse(data, max_bytes=MAX_MANIFEST_BYTES, where=where)
    except JsonTextError as exc:
        raise ManifestError(
            "case_invalid", exc.message, where=where, hint=exc.hint, problems=exc.problems
        ) from exc
    text = data if isinstance(data, str) else data.decode("utf-8")
    document = Document(text)
    case = _check_case(document.root(value), name, where, text)
    if case is None or not document.ok:
        problems = document.problems()
        raise ManifestError("case_invalid", first_problem(problems), where=where, problems=problems)
    return case


def _check_case(root: Cursor, name: str, where: str, text: str) -> Case | None:
    fields = root.fields(_FIELDS, ("args", "expect"))
    if fields is None or "args" not in fields or "expect" not in fields:
        return None
    description = timeout = budget = None
    approve = "allow"
    if "description" in fields:
        description = fields["description"].string(max_chars=4096)
    if "timeout_ms" in fields:
        timeout = fields["timeout_ms"].integer(1, MAX_TIMEOUT_MS)
    if "max_output_bytes" in fields:
        budget = fields["max_output_bytes"].integer(1, MAX_OUTPUT_BYTES)
    if "approve" in fields:
        approve = fields["approve"].choice(("allow", "deny", "none"), "answer") or approve
    return Case(
        name=name,
        path=where,
        text=text,
        args=freeze(fields["args"].value),
        files=_check_start_files(fields.get("files")),
        expect=_check_expect(fields["expect"]),
        description=description or "",
        timeout_ms=timeout,
        approve=approve,  # type: ignore[arg-type]  # choice() checked it
        max_output_bytes=budget,
    )


# ---------------------------------------------------------------- files


def _check_start_files(cursor: Cursor | None) -> Mapping[str, StartFile]:
    out: dict[str, StartFile] = {}
    named = _paths(cursor)
    for path, item in named:
        if item.value is None:
            out[path] = StartFile("directory")
            continue
        found = _check_file(item, what="null for a directory")
        if found is not None:
            out[path] = StartFile(found.kind, found.data or b"", found.target, found.mode)
    for path, item in named:
        above = path.rpartition("/")[0]
        while above:
            if above in out and out[above].kind != "directory":
                item.fail(f"is below {above!r}, which is a {out[above].kind}", at="key")
                break
            above = above.rpartition("/")[0]
    return MappingProxyType(out)


def _check_expected_files(cursor: Cursor | None) -> Mapping[str, ExpectedFile]:
    out: dict[str, ExpectedFile] = {}
    for path, item in _paths(cursor):
        if item.value is None:
            out[path] = ExpectedFile("absent")
        elif isinstance(item.value, dict) and {"contains", "regex"} & set(item.value):
            match = check_text_match(item)
            if match is not None:
                out[path] = ExpectedFile("file", text=match)
        else:
            found = _check_file(item, what="null for no such file", may_be_bare=True)
            if found is not None:
                out[path] = found
    return MappingProxyType(out)


def _paths(cursor: Cursor | None) -> list[tuple[str, Cursor]]:
    """Return the members of an object whose keys are plain relative paths."""
    if cursor is None:
        return []
    if not isinstance(cursor.value, dict):
        cursor.wrong_type("an object")
        return []
    if len(cursor.value) > MAX_FILES:
        cursor.fail(f"has {len(cursor.value)} files; the limit is {MAX_FILES}")
        return []
    out = []
    for path in cursor.value:
        item = cursor.child(path)
        problem = _path_problem(path)
        if problem is None:
            out.append((path, item))
        else:
            item.fail(problem, at="key")
    return out


def _path_problem(path: str) -> str | None:
    if not path or path.startswith("/"):
        return "a file is named by a path relative to the case's folder"
    if len(path) > MAX_PATH_CHARS or "\0" in path:
        return f"a path has 1 to {MAX_PATH_CHARS} characters, none of them NUL"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return "a path has no empty, '.' or '..' part"
        if len(part.encode("utf-8")) > MAX_NAME_BYTES:
            return f"a name in a path has at most {MAX_NAME_BYTES} bytes"
    return None


def _check_file(cursor: Cursor, *, what: str, may_be_bare: bool = False) -> ExpectedFile | None:
    """Check the forms that files before and after a call have in common."""
    if isinstance(cursor.value, str):
        return ExpectedFile("file", cursor.value.encode("utf-8"))
    if not isinstance(cursor.value, dict):
        cursor.wrong_type(f"a text, {what}, or an object")
        return None
    fields = cursor.fields(_FILE_FORMS)
    if fields is None:
        return None
    mode = _check_mode(fields.get("mode"))
    forms = [key for key in fields if key != "mode"]
    if not forms and may_be_bare and mode is not None:
        return ExpectedFile("file", mode=mode)
    if len(forms) != 1:
        cursor.fail("needs exactly one of text, base64, symlink, directory")
        return None
    form, item = forms[0], fields[forms[0]]
    if form == "directory":
        if item.value is not True:
            item.fail("must be true")
        return ExpectedFile("directory", mode=mode)
    text = item.string()
    if text is None:
        return None
    if form == "symlink":
        if not text or "\0" in text or len(text.encode("utf-8")) >= 4096:
            item.fail("a target has 1 to 4095 bytes, none of them NUL")
        if mode is not None:
            fields["mode"].fail("a symlink has no mode of its own")
        return ExpectedFile("symlink", target=text)
    if form == "text":
        return ExpectedFile("file", text.encode("utf-8"), mode=mode)
    try:
        return ExpectedFile("file", base64.b64decode(text, validate=True), mode=mode)
    except (binascii.Error, ValueError):
        item.fail("is not base64")
        return None


def _check_mode(cursor: Cursor | None) -> int | None:
    if cursor is None:
        return None
    text = cursor.string()
    if text is None:
        return None
    if _MODE.fullmatch(text) is None:
        cursor.fail('must be an octal mode such as "644"')
        return None
    return int(text, 8)


# ---------------------------------------------------------------- expectation


def _check_expect(cursor: Cursor) -> Expectation:
    fields = cursor.fields(_EXPECT)
    if fields is None:
        return Expectation()
    if "isError" in fields and "is_error" in fields:
        fields["is_error"].fail("is the same as 'isError'; give one of them", at="key")
    error = fields.get("isError", fields.get("is_error"))
    code = None
    if "code" in fields and fields["code"].value is not None:
        code = fields["code"].string(min_chars=1, max_chars=MAX_CODE_CHARS)
    content = None
    if "content" in fields:
        blocks = [check_block(item) for item in fields["content"].items(max_items=MAX_BLOCKS)]
        content = tuple(block for block in blocks if block is not None)
    return Expectation(
        is_error=code is not None if error is None else bool(error.boolean()),
        code=code,
        says_code="code" in fields,
        content=content,
        files=_check_expected_files(fields.get("files")),
        effects=freeze(fields["effects"].value) if "effects" in fields else None,
        says_effects="effects" in fields,
    )
