"""The published JSON Schemas: pinned, valid, and of one mind with the hand-written checks."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from raw_exec._resources import schemas_dir, workers_dir
from raw_exec.config import load_config
from raw_exec.config.load import LIMIT_RANGES
from raw_exec.errors import ConfigError, ManifestError
from raw_exec.limits import Limits
from raw_exec.manifest import parse_manifest

NAMES = ("config-1.json", "tool-manifest-2.json")
MANIFEST: dict[str, Any] = {
    "api_version": 2,
    "id": "t",
    "version": "1.0.0",
    "name": "t",
    "description": "d",
    "input_schema": {"type": "object"},
    "entry": "./index.mjs",
}
PANEL = {"id": "p", "title": "P"}
ACTION = {"id": "a", "label": "A", "kind": "prompt", "text": "t"}
VAR = {"description": "d", "access": "use", "source": {"kind": "literal", "value": 1}}


def published(name: str) -> Any:
    return json.loads((schemas_dir() / name).read_bytes())


@pytest.fixture(scope="module")
def manifest_schema() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(published("tool-manifest-2.json"))


@pytest.fixture(scope="module")
def config_schema() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(published("config-1.json"))


def test_resources_are_found_beside_the_package() -> None:
    """A checkout and an editable install have them there; a wheel bundles them."""
    assert (schemas_dir() / "PINNED.json").is_file()
    assert (workers_dir() / "launcher").is_dir()


def test_every_published_schema_is_pinned() -> None:
    """style §2: a change of a published contract is a decision someone sees in a diff."""
    pins = published("PINNED.json")
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in schemas_dir().glob("*.json")
        if path.name != "PINNED.json"
    }
    assert found == pins
    assert tuple(sorted(found)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_published_schema_is_valid_and_names_itself(name: str) -> None:
    """Draft 2020-12, with an identity that nobody would try to fetch."""
    schema = published(name)
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:raw:")


def test_limits_have_a_range_and_their_default_published() -> None:
    """One list of limits, three places that show it."""
    fields = published("config-1.json")["properties"]["limits"]["properties"]
    defaults = Limits()
    assert {n: (f["minimum"], f["maximum"], f["default"]) for n, f in fields.items()} == {
        name: (*LIMIT_RANGES[name], getattr(defaults, name)) for name in Limits.__dataclass_fields__
    }


MANIFEST_CHANGES: list[dict[str, Any]] = [
    {},
    {"entry": "./index.py"},
    {"entry": "./index.js"},
    {"api_version": 2.0},
    {"api_version": 1},
    {"api_version": True},
    {"api_version": "2"},
    {"id": "T"},
    {"id": "a" * 65},
    {"id": "t\n"},
    {"name": "1"},
    {"name": "_x-Y"},
    {"version": "1.2"},
    {"version": "1.2.3.4"},
    {"version": "1.2.3\n"},
    {"description": ""},
    {"description": " "},
    {"description": 5},
    {"input_schema": {}},
    {"input_schema": {"type": "array"}},
    {"input_schema": True},
    {"condition_sources": []},
    {"condition_sources": ["arguments"]},
    {"condition_sources": ["effects"]},
    {"condition_sources": ["effects"], "effects_schema": {"type": "object"}},
    {"condition_sources": ["arguments", "arguments"]},
    {"condition_sources": ["x"]},
    {"effects_schema": {"type": "object"}},
    {"effects_schema": {"type": "string"}},
    {"effects_schema": None},
    {"x": 1},
    {"panels": []},
    {"panels": [PANEL]},
    {"panels": [{"id": f"p{i}", "title": "P"} for i in range(4)]},
    {"panels": [{"id": f"p{i}", "title": "P"} for i in range(5)]},
    {"panels": [{**PANEL, "icon": "unknown"}]},
    {"panels": [{**PANEL, "icon": 1}]},
    {"panels": [{**PANEL, "title": "x" * 41}]},
    {"panels": [{**PANEL, "title": "a\tb"}]},
    {"panels": [{**PANEL, "placement": "chat", "open": "first_update", "context": "summary"}]},
    {"panels": [{**PANEL, "placement": "x"}]},
    {"panels": [{**PANEL, "acp_plan": 1}]},
    {"panels": [{**PANEL, "x": 1}]},
    {"panels": [{**PANEL, "actions": [ACTION]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "arguments": {}}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "kind": "tool"}]}]},
    {
        "panels": [
            {**PANEL, "actions": [{"id": "a", "label": "A", "kind": "tool", "arguments": {}}]}
        ]
    },
    {
        "panels": [
            {**PANEL, "actions": [{"id": "a", "label": "A", "kind": "response", "response": "x"}]}
        ]
    },
    {"panels": [{**PANEL, "actions": [{**ACTION, "when": {"status": "done"}}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "when": {"status": []}}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "when": {}}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "confirm": ""}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "confirm": True, "primary": False}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "blocks": ["b"], "scope": "block"}]}]},
    {"panels": [{**PANEL, "actions": [{**ACTION, "scope": "x"}]}]},
]


@pytest.mark.parametrize("changes", MANIFEST_CHANGES, ids=json.dumps)
def test_manifest_checks_agree_with_the_published_schema(
    changes: dict[str, Any], manifest_schema: jsonschema_rs.Draft202012Validator
) -> None:
    """An editor must not accept what the load refuses, nor the other way round."""
    document = {**MANIFEST, **changes}
    try:
        parse_manifest(json.dumps(document))
        accepted = True
    except ManifestError:
        accepted = False
    assert manifest_schema.is_valid(document) is accepted


@pytest.mark.parametrize("field", list(MANIFEST))
def test_both_require_every_required_manifest_field(
    field: str, manifest_schema: jsonschema_rs.Draft202012Validator
) -> None:
    """The same table without one field each."""
    document = {key: value for key, value in MANIFEST.items() if key != field}
    with pytest.raises(ManifestError):
        parse_manifest(json.dumps(document))
    assert not manifest_schema.is_valid(document)


def with_agent(**agent: Any) -> dict[str, Any]:
    return {"agents": {"a": agent}}


def with_profile(**profile: Any) -> dict[str, Any]:
    return {"sandbox": {"profiles": {"p": profile}}}


CONFIGS: list[Any] = [
    {},
    [],
    {"x": 1},
    {"models": {"m": 1}},
    {"models": []},
    with_agent(),
    {"agents": {"1": {}}},
    with_agent(x=1),
    with_agent(tools={"use": ["local/x", {"ref": "agent/y", "as": "z"}, "mcp/s/t"]}),
    with_agent(tools={"use": ["x"]}),
    with_agent(tools={"use": [{"as": "x"}]}),
    with_agent(tools={"use": [{"ref": "local/x", "as": "1"}]}),
    with_agent(tools={"rules": [{"match": "*", "effect": "ask"}]}),
    with_agent(tools={"rules": [{"match": "*", "effect": "x"}]}),
    with_agent(tools={"rules": [{"match": "*"}]}),
    with_agent(tools={"rules": [{"match": "*", "effect": "ask", "x": 1}]}),
    with_agent(hooks={"use": ["agent/x"]}),
    with_agent(hooks={"use": ["agent/x", "agent/x"]}),
    with_agent(hooks={"use": ["x"]}),
    with_agent(max_output_bytes=1.0),
    with_agent(max_output_bytes=0),
    with_agent(request_timeout_ms=86_400_001),
    with_agent(model="m"),
    {"vars": {"x": VAR}},
    {"vars": {"X": VAR}},
    {"vars": {"x": {**VAR, "access": "x"}}},
    {"vars": {"x": {**VAR, "cache_ttl_ms": 5, "type": "number"}}},
    {"vars": {"x": {**VAR, "type": "int"}}},
    {"vars": {"x": {**VAR, "source": {"kind": "env", "name": "A"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "env", "name": "1"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "env"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "file", "path": "f", "format": "json"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "file", "path": "f", "format": "xml"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "provider", "name": "system.time"}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "provider", "name": "system.time", "params": 1}}}},
    {"vars": {"x": {**VAR, "source": {"kind": "x"}}}},
    {"var_providers": {"p": {"command": "c", "args": ["a\n"], "cwd": ".", "timeout_ms": 1}}},
    {"var_providers": {"p": {"command": ""}}},
    {"var_providers": {"p": {"command": "c", "args": ["\0"]}}},
    {"var_providers": {"system.time": {"command": "c"}}},
    {"mcp": {"servers": {"s": {"command": "c", "env": {"A": "b"}}}}},
    {"mcp": {"servers": {"s": {"command": "c", "headers": {}}}}},
    {"mcp": {"servers": {"s": {"url": "https://h/x", "headers": {"A-B": "c"}}}}},
    {"mcp": {"servers": {"s": {"url": "https://h/x", "env": {}}}}},
    {"mcp": {"servers": {"s": {"url": "ftp://h"}}}},
    {"mcp": {"servers": {"s": {}}}},
    {"mcp": {"servers": {"s": {"type": "stdio", "command": "c", "sandbox": "shell"}}}},
    {"mcp": {"servers": {"s": {"type": "stdio", "url": "https://h"}}}},
    {"mcp": {"servers": {"s": {"type": "streamable-http", "url": "https://h", "idle_ms": 1}}}},
    {"mcp": {"servers": {"s": {"type": "streamable-http", "url": "https://h", "sandbox": "s"}}}},
    {"mcp": {"servers": {"s": {"type": "sse", "url": "https://h"}}}},
    {"mcp": {"servers": {"s": {"command": "c", "env": {"HOME": "/x"}}}}},
    {"mcp": {"servers": {"s": {"command": "c", "env": {"A": {"var": 1}}}}}},
    {"mcp": {"servers": {"s": {"command": "c", "start_ms": 600_001}}}},
    {"mcp": {"servers": {"s": {"command": "c", "timeout_ms": 5}}}},
    {"mcp": {"servers": {"s": {"url": "https://h/x", "headers": {"A": "b\n"}}}}},
    {"mcp": {"servers": {"s": {"url": "https://h/x", "headers": {"Mcp-Session-Id": "c"}}}}},
    {
        "vars": {"x": VAR},
        "mcp": {"servers": {"s": {"url": "https://h", "headers": {"A": {"var": "x"}}}}},
    },
    {"mcp": {"x": 1}},
    {"limits": {"call_ms": 1}},
    {"limits": {"call_ms": 1.5}},
    {"limits": {"call_ms": 0}},
    {"limits": {"x": 1}},
    {"contracts": {"registry": "http://h", "store": "s"}},
    {"contracts": {"registry": "h"}},
    {"sandbox": {"default": "shell", "tools": {"local/*": "readonly"}}},
    {"sandbox": {"tools": {"": "shell"}}},
    {"sandbox": {"tools": {"mcp/s": "shell"}}},
    with_profile(),
    with_profile(extends="shell", read=["$CWD/x", "rel"], write=["/tmp/x"], network="host"),
    with_profile(read=["~/x"]),
    with_profile(read=["a/../b"]),
    with_profile(read=["/x*"]),
    with_profile(read=["..a", "a..", "a..b"]),
    with_profile(network="allowlist"),
    with_profile(effects="observed"),
    with_profile(sandbox="none", tier="cgroup", isolation="fresh", processes="allowed"),
    with_profile(sandbox="off"),
    with_profile(x=1),
]


@pytest.mark.parametrize("document", CONFIGS, ids=json.dumps)
def test_configuration_checks_agree_with_the_published_schema(
    document: Any, config_schema: jsonschema_rs.Draft202012Validator, tmp_path: Path
) -> None:
    """References between fields are left out: a schema can not follow them."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    try:
        load_config(path, environ={})
        accepted = True
    except ConfigError:
        accepted = False
    assert config_schema.is_valid(document) is accepted
