"""What is fed to every parser, and the rule that judges it.

The rule is always the same: the input is accepted, or refused with the one documented error;
any other exception is a bug. What is accepted must also be what it says: equal however the bytes
arrive, equal to what the standard library reads, within its limits.

Each target takes bytes, so the same function is run by hypothesis, with inputs made after a
grammar, and by a coverage-guided fuzzer, with inputs made after what the code does.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from raw_exec.builtin.write_file.changes.patch import MAX_PATHS, PatchError, parse_patch
from raw_exec.builtin.write_file.changes.request import describe_effects, find_problem
from raw_exec.config import Config, load_config
from raw_exec.dispatch import Call, ToolResult
from raw_exec.dispatch.audit import AuditLog, audit_record
from raw_exec.dispatch.results import InvalidResult, cap_content, check_result
from raw_exec.effects.paths import is_effect_path
from raw_exec.errors import ConfigError, ManifestError, PolicyError, RemoteWireError
from raw_exec.jsontext import JsonTextError, parse
from raw_exec.limits import MAX_JSON_DEPTH, MAX_SAFE_INTEGER
from raw_exec.manifest.hook import HookManifest, parse_hook_manifest
from raw_exec.manifest.tool import ToolManifest, parse_manifest
from raw_exec.policy import Verdict, compile_glob, parse_rules
from raw_exec.schema import compile_schema
from raw_exec.values import NotJson, freeze, thaw
from raw_exec.verify import Case, parse_case
from raw_exec.wire import NEED_DATA, ConnectionState, WorkerConnection
from tests.wire.script import CLEAN, READY, packed

__all__ = ["TARGETS", "Target"]

Target = Callable[[bytes], object]
MAX_BYTES = 64 * 1024
LOADED = packed("loaded", {"exports": ["handler", "describeEffects"]})


def _documented(found: object, *known: object) -> None:
    assert found in known, f"{found!r} is not documented"


# ---------------------------------------------------------------- wire


def _connection(state: int) -> WorkerConnection:
    """Return a connection that waits for something; the call under way has the id 1."""
    connection = WorkerConnection(MAX_BYTES, max_frames_per_call=50)
    if state == 0:
        return connection
    connection.receive_data(READY)
    assert connection.next_event() is not NEED_DATA
    connection.send_load(entry="/t/index.mjs", name="t", kind="descriptor")
    if state == 1:
        return connection
    connection.receive_data(LOADED)
    assert connection.next_event() is not NEED_DATA
    if state == 2:
        connection.send_ping(id=1)
    elif state == 3:
        connection.send_describe(id=1, fn="describeEffects", args={}, cwd="/")
    elif state == 4:
        connection.send_call(
            id=1,
            args={},
            cwd="/",
            tool_call_id="c",
            max_output_bytes=1,
            result_bytes=MAX_BYTES,
            scratch="/",
        )
    return connection


def _read(connection: WorkerConnection, pieces: list[bytes]) -> tuple[list[Any], str | None]:
    """Feed pieces; return the events, and the code of the error that ended it."""
    events: list[Any] = []
    try:
        for piece in pieces:
            connection.receive_data(piece)
            while (event := connection.next_event()) is not NEED_DATA:
                events.append(event)
        connection.closed()
    except RemoteWireError as exc:
        _documented(exc.code, "protocol_violation", "worker_closed")
        _documented(connection.state, ConnectionState.ERROR)
        try:
            connection.next_event()
        except RemoteWireError:
            return events, exc.code
        raise AssertionError("a failed connection went on") from exc
    return events, None


def wire(data: bytes) -> object:
    """Frames of a worker, in every state, whole and in pieces."""
    if len(data) < 2:
        return None
    state, size, rest = data[0] % 6, data[1] + 1, data[2:]
    whole = _read(_connection(state), [rest] if rest else [])
    pieces = [rest[at : at + size] for at in range(0, len(rest), size)]
    assert repr(_read(_connection(state), pieces)) == repr(whole), "pieces mean something else"
    return whole if whole[0] else None


# ---------------------------------------------------------------- JSON text


def jsontext(data: bytes) -> object:
    """Strict JSON: what is accepted is what the standard library reads."""
    try:
        value = parse(data, max_bytes=MAX_BYTES, where="f")
    except JsonTextError as exc:
        _check_problems(exc.problems, data)
        _check_refusal(data, exc)
        return None
    assert json.loads(data) == value
    assert freeze(value) == value
    return value


def _check_problems(problems: Any, data: bytes, *, some: bool = False) -> None:
    assert problems or not some
    lines = data.decode("utf-8", "replace").count("\n") + 1
    for problem in problems:
        if problem.line is not None:
            assert 1 <= problem.line <= lines
            assert problem.column >= 1


def _check_refusal(data: bytes, exc: JsonTextError) -> None:
    """What the standard library reads is refused only for one of the documented reasons."""
    if exc.code != "json_invalid":
        assert exc.code in ("json_too_large", "json_too_deep", "json_too_many_values"), exc.code
        return
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs)
    except (UnicodeDecodeError, json.JSONDecodeError, _Duplicate, ValueError, RecursionError):
        return
    assert _not_portable(value), f"refused without a reason: {exc}"


class _Duplicate(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise _Duplicate
    return out


def _not_portable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_not_portable(key) or _not_portable(item) for key, item in value.items())
    if isinstance(value, list):
        return any(_not_portable(item) for item in value)
    if isinstance(value, str):
        return any(0xD800 <= ord(char) < 0xE000 for char in value)
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    return isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER


# ---------------------------------------------------------------- files of the user


def manifest(data: bytes) -> object:
    """``tool.json``."""
    try:
        found = parse_manifest(data, folder_name="t", where="t/tool.json")
    except ManifestError as exc:
        _documented(exc.code, "manifest_invalid")
        _check_problems(exc.problems, data, some=True)
        return None
    assert isinstance(found, ToolManifest)
    assert found.id == "t"
    found.compiled_input.is_valid({})
    return found


def hook(data: bytes) -> object:
    """``hook.json``."""
    try:
        found = parse_hook_manifest(data, folder_name="t", where="t/hook.json")
    except ManifestError as exc:
        _documented(exc.code, "manifest_invalid")
        _check_problems(exc.problems, data, some=True)
        return None
    assert isinstance(found, HookManifest)
    assert found.events
    for entry in found.events:
        entry.reaches("local/t")
    return found


_CONFIG_CODES = ("config_invalid", "unknown_agent", "agent_not_chosen", "config_unreadable")


def config(data: bytes) -> object:
    """``config.json``, through the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        try:
            found = load_config(path, environ={"HOME": folder})
        except ConfigError as exc:
            _documented(exc.code, *_CONFIG_CODES)
            _check_problems(exc.problems, data)
            return None
    assert isinstance(found, Config)
    assert found.agent.name in found.agents
    assert found.sandbox.profile_for("local/t").sandbox in ("on", "none")
    return found


def case(data: bytes) -> object:
    """``cases/*.json``."""
    try:
        found = parse_case(data, name="c", where="c.json")
    except ManifestError as exc:
        _documented(exc.code, "case_invalid")
        _check_problems(exc.problems, data)
        return None
    assert isinstance(found, Case)
    for path in (*found.files, *found.expect.files):
        assert path
        assert not os.path.isabs(path)
        assert os.path.normpath(path) == path, path
        assert not path.startswith("..")
    return found


# ---------------------------------------------------------------- policy

SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "files": {
                "type": "array",
                "items": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        },
        "additionalProperties": False,
    }
)
_RULE_CODES = (
    "rules_invalid",
    "rule_invalid",
    "rule_when_not_ask",
    "glob_invalid",
    "predicate_invalid",
    "predicate_regex_invalid",
)
_BIND_CODES = (
    "predicate_source_undeclared",
    "predicate_path_unknown",
    "predicate_path_not_string",
    "predicate_regex_invalid",
)


def rules(data: bytes) -> object:
    """``tools.rules`` and their predicates: parsed, bound to a tool, evaluated."""
    value = _any_json(data)
    if value is _NOTHING:
        return None
    try:
        found = parse_rules(value)
    except PolicyError as exc:
        _documented(exc.code, *_RULE_CODES)
        return None
    try:
        policy = found.bind(
            "local/t",
            condition_sources=("arguments",),
            schemas={"arguments": SCHEMA, "effects": None},
        )
    except PolicyError as exc:
        _documented(exc.code, *_BIND_CODES)
        return None
    arguments = {"path": "a/b\n", "files": [{"path": "x"}, {}, {"path": "é"}]}
    evaluation = policy.evaluate({"arguments": arguments, "effects": None})
    last = [rule for rule in found.rules if _glob_by_steps(rule.match, "local/t")]
    if not last:
        assert evaluation.verdict is Verdict.ALLOW
    elif last[-1].when is None:
        assert evaluation.verdict is last[-1].verdict
    return evaluation


def glob(data: bytes) -> object:
    """A glob and an identity, against a slow matcher that is easy to believe."""
    pattern, _, identity = data.decode("utf-8", "surrogateescape").partition("\n")
    try:
        matcher = compile_glob(pattern)
    except PolicyError as exc:
        _documented(exc.code, "glob_invalid")
        return None
    found = matcher.match(identity)
    if len(pattern) * len(identity) < 10_000:
        assert found is _glob_by_steps(pattern, identity)
    return found


def _glob_by_steps(pattern: str, text: str) -> bool:
    """Match by the set of places where a prefix of the pattern can end."""
    places = {0}
    for char in pattern:
        if char == "*":
            places = set(range(min(places), len(text) + 1)) if places else set()
        else:
            places = {
                at + 1 for at in places if at < len(text) and (char == "?" or text[at] == char)
            }
    return len(text) in places


# ---------------------------------------------------------------- patches


def patch(data: bytes) -> object:
    """A patch for ``write_file``: parsed, and described as effects."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    try:
        changes = parse_patch(text, "/w")
    except PatchError as exc:
        _check_patch_refusal(text, exc)
        return None
    assert changes
    assert len(changes) <= MAX_PATHS
    effects = describe_effects({"patch": text}, cwd="/w")["files"]
    assert {item["path"] for item in effects} == {
        path for change in changes for path in (change.target, change.new_target) if path
    }
    assert all(is_effect_path(item["path"]) for item in effects)
    assert find_problem({"patch": text}) is None
    crlf = text.replace("\n", "\r\n")
    if "\r" not in text:
        assert parse_patch(crlf, "/w") == changes, "CRLF means something else"
    return changes


def _check_patch_refusal(text: str, exc: PatchError) -> None:
    assert 0 <= exc.line <= text.count("\n") + 2
    assert find_problem({"patch": text}) is not None


# ---------------------------------------------------------------- results and records

_NOTHING = object()


def _any_json(data: bytes) -> Any:
    """Read loose JSON, as deep and odd as a worker or a config could hold after parsing."""
    try:
        value = json.loads(data)
        freeze(value)
    except (ValueError, RecursionError, NotJson):
        return _NOTHING
    return value


def result(data: bytes) -> object:
    """What a handler returned: checked, then cut to a budget."""
    value = _any_json(data)
    if value is _NOTHING:
        return None
    try:
        checked = check_result(value)
    except InvalidResult as exc:
        _documented(exc.pointer[:1], "", "/")
        return None
    for budget in (1, 7, 64, 10_000):
        capped, missing = cap_content(checked.content, budget)
        _check_capped(checked.content, capped, missing, budget)
    return checked


def _check_capped(content: Any, capped: Any, missing: int, budget: int) -> None:
    size = sum(_size(block) for block in content)
    assert (missing == 0) is (size <= budget) or size == 0
    if size <= budget:
        assert capped == content
        return
    kept = sum(_size(block) for block in capped)
    assert kept <= budget + 300, "more than the budget and its marks"
    assert len(capped) <= len(content) + 1
    for block in capped:
        json.dumps(block, ensure_ascii=False).encode("utf-8")


def _size(block: dict[str, Any]) -> int:
    if block["type"] == "image":
        return 0
    text = (
        block["text"]
        if block["type"] == "text"
        else json.dumps(block["value"], ensure_ascii=False, separators=(",", ":"))
    )
    return len(text.encode("utf-8"))


def audit(data: bytes) -> object:
    """A record of a call: always one line, always JSON, never the arguments' own text."""
    value = _any_json(data)
    if value is _NOTHING:
        return None
    marked = {"secret-mark-argument": value}
    code = value if isinstance(value, str) else "handler_error"
    call = Call(
        name=str(value)[:1000],
        raw_arguments=marked,
        cwd="/w",
        max_output_bytes=1,
        tool_call_id="c",
        source="model",
        call_ms=1,
    )
    call.arguments, call.effects = freeze(marked, max_depth=MAX_JSON_DEPTH + 1), freeze(value)
    outcome = ToolResult(
        ({"type": "text", "text": "x"},),
        True,
        code,
        "handler",
        {},
        {},
        1.0,
        detail={"rule": value, "kind": value, "error": value, "other": "secret-mark-detail"},
    )
    record = audit_record(call, outcome, principal="p")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "audit")
        log = AuditLog(path)
        log.write(record)
        log.close()
        with open(path, "rb") as file:
            written = file.read()
    assert written.count(b"\n") == 1
    assert thaw(json.loads(written)) == json.loads(json.dumps(record))
    assert b"secret-mark" not in written or "secret-mark" in json.dumps(value)
    return record


TARGETS: dict[str, Target] = {
    "wire": wire,
    "jsontext": jsontext,
    "manifest": manifest,
    "hook": hook,
    "config": config,
    "case": case,
    "rules": rules,
    "glob": glob,
    "patch": patch,
    "result": result,
    "audit": audit,
}


# ---------------------------------------------------------------- seeds

_MANIFEST = {
    "api_version": 2,
    "id": "t",
    "version": "1.0.0",
    "name": "t",
    "description": "Does it. Example: {}",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string", "pattern": "^a+$"}, "n": {"enum": [1, "2"]}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "effects_schema": {"type": "object", "properties": {"files": {"type": "array"}}},
    "condition_sources": ["arguments", "effects"],
    "entry": "./index.mjs",
}
_HOOK = {
    "protocol_version": 2,
    "name": "t",
    "events": [
        {
            "name": "PreToolUse",
            "match": "local/*",
            "when": {"source": "arguments", "any": "files[*].path", "regex": "(^|/)a+$"},
        },
        {"name": "SessionStart"},
    ],
    "command": "node",
    "args": ["./index.mjs", "x"],
    "timeout_ms": 100,
}
_CONFIG = {
    "default_agent": "a",
    "agents": {
        "a": {
            "tools": {
                "use": ["local/t", {"ref": "agent/u", "as": "v"}],
                "rules": [
                    {"match": "local/*", "effect": "deny"},
                    {
                        "match": "local/t",
                        "effect": "ask",
                        "when": {"source": "arguments", "any": "files[*].path", "regex": "^x"},
                    },
                ],
            },
            "vars": ["v"],
        }
    },
    "vars": {
        "v": {
            "description": "d",
            "access": "read",
            "source": {"kind": "literal", "value": 1},
        }
    },
    "sandbox": {
        "default": "workspace",
        "profiles": {"p": {"extends": "workspace", "read": ["$CWD", "/opt/x"], "network": "none"}},
        "tools": {"local/*": "p"},
    },
    "limits": {"call_ms": 1000},
}
_CASE = {
    "args": {"path": "$CWD/a"},
    "files": {"a": "1", "b/c": {"base64": "AA==", "mode": "600"}, "l": {"symlink": "a"}, "d": None},
    "expect": {
        "isError": False,
        "code": None,
        "content": [
            {"type": "text", "text": {"regex": "^a"}},
            {"type": "json", "contains": {"a": 1}},
            {"type": "image", "mimeType": "image/png", "sha256": "0" * 64},
        ],
        "files": {"a": None, "b/c": {"contains": "x"}},
        "effects": {"files": []},
    },
    "timeout_ms": 1,
    "approve": "deny",
}
_RESULT = {
    "content": [
        {"type": "text", "text": "añ€😀" * 20},
        {"type": "json", "value": {"a": [1, "ñ", None]}},
        {"type": "panel", "panel": "p", "value": 1},
        {"type": "text", "text": ""},
    ],
    "isError": True,
    "code": "x",
}
_PATCH = (
    "*** Begin Patch\n*** Add File: a/b.txt\n+x\n*** No newline at end of file\n"
    "*** Delete File: c\n*** Update File: /w/d\n*** Move to: e\n@@\n a\n-b\n+c\n"
    "*** End of File\n*** Update File: f\n@@\n+g\n@@\n-h\n*** End Patch\n"
)
_MESSAGES: list[dict[str, Any]] = [
    {"t": "ready", "version": 1, "runtime": "python", "runtime_version": "3", "pid": 2},
    {"t": "loaded", "exports": ["handler"]},
    {
        "t": "load_failed",
        "error": {"kind": "import_failed", "name": "E", "message": "m", "stack": ""},
    },
    {"t": "result", "id": 1, "value": {"content": [{"type": "text", "text": "x"}]}, "state": CLEAN},
    {
        "t": "failed",
        "id": 1,
        "error": {
            "kind": "threw",
            "name": "E",
            "message": "m",
            "stack": "s",
            "cause": {"kind": "threw", "name": "E", "message": "", "stack": ""},
        },
        "state": CLEAN,
    },
    {"t": "described", "id": 1, "value": {"files": []}},
    {"t": "request", "id": 1, "rid": 1, "method": "vars.list", "params": {}},
    {"t": "progress", "id": 1, "value": 1.5},
    {"t": "pong", "id": 1},
]


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def seeds(name: str) -> list[bytes]:
    """Return valid inputs of a target, for mutation."""
    texts = [_dump(item) for item in (_MANIFEST, _CONFIG, _CASE, _RESULT)]
    known: dict[str, Callable[[], Iterator[bytes]]] = {
        "wire": lambda: iter(
            [bytes([state, 2]) + packed(one["t"], one) for state in range(6) for one in _MESSAGES]
        ),
        "jsontext": lambda: iter([*texts, b'"\\ud83d\\ude00"', b"[-0.0, 1e5, true, null]"]),
        "manifest": lambda: iter(texts[:1]),
        "hook": lambda: iter([_dump(_HOOK)]),
        "config": lambda: iter(texts[1:2]),
        "case": lambda: iter(texts[2:3]),
        "rules": lambda: iter([_dump(_CONFIG["agents"]["a"]["tools"]["rules"])]),  # type: ignore[index]
        "glob": lambda: iter([b"local/*\nlocal/t", b"*a?b*c\nxxaybzzc", b"?*?\nab"]),
        "patch": lambda: iter([_PATCH.encode(), _PATCH.replace("\n", "\r\n").encode()]),
        "result": lambda: iter(texts[3:]),
        "audit": lambda: iter([texts[3], b'"x"']),
    }
    return list(known[name]())


def words(name: str) -> list[bytes]:
    """Return words that a mutation may put in: keys, markers, odd values."""
    found = {word for seed in seeds(name) for word in re.findall(rb"[A-Za-z_*@+./$-]{2,30}", seed)}
    odd = [b"NaN", b"1e999", b"9007199254740993", b'"\\ud800"', b"\xed\xa0\x80", b"\x00", b"\xff"]
    marks = [b"{", b"}", b"[" * 70, b'"', b",", b":", b"\r\n", b"\n", b"-", b"true", b"null"]
    return [*sorted(found), *odd, *marks]
