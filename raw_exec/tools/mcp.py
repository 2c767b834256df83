"""Tools of MCP servers as the registry sees them: names, definitions, and those that are missing.

A definition is data from a program that is not trusted. It becomes a tool only when everything
in it can be used as it is written; otherwise that one tool is withheld, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ..config import McpServer
from ..errors import ManifestError, Problem, SchemaError, first_problem
from ..limits import MAX_MANIFEST_BYTES
from ..manifest import LoadedTool, Snapshot, ToolManifest
from ..manifest.tool import MAX_DESCRIPTION_BYTES, TOOL_NAME
from ..schema import CompiledSchema, compile_schema
from ..text import escape_text
from ..values import NotJson, freeze

__all__ = [
    "McpOrigin",
    "MissingTool",
    "definition_digest",
    "load_definition",
    "mcp_names",
    "split_ref",
]

_MAX_NAME: Final = 64
_DIGEST_CHARS: Final = 8
_MAX_VERSION_CHARS: Final = 64
_CONTRACT: Final = ("name", "inputSchema", "outputSchema")
"""What a call relies on. The rest of a definition is words, of which the snapshot is kept."""


@dataclass(frozen=True, slots=True)
class McpOrigin:
    """Where a tool of an MCP server comes from.

    Args:
        server: Name in ``mcp.servers``.
        tool: The server's own name for it.
        output: Validator for structured content, when the tool declares a schema.
        contract: Digest over what a call relies on; another one means another tool.
    """

    server: str
    tool: str
    output: CompiledSchema | None
    contract: str


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A selected tool that can't be called, and why.

    Args:
        name: What a model would call it.
        reason: One line, safe to show.
        detail: JSON-compatible facts.
    """

    identity: str
    name: str
    reason: str
    hint: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.identity} is withheld: {self.reason}{hint}"


def split_ref(ref: str) -> tuple[str, str]:
    """Return server and tool of ``mcp/<server>/<tool>``."""
    _, server, tool = ref.split("/", 2)
    return server, tool


def mcp_names(refs: Iterable[str]) -> Mapping[str, str]:
    """Return the model-visible name of each selected tool that is not renamed.

    ``<server>__<tool>`` where that is a valid name and leads back to one server and one tool;
    otherwise forbidden characters are replaced, and the name ends in a part of the digest of
    the identity. So ``a.b`` and ``a_b``, or equal names on two servers, never meet.
    """
    wanted = sorted(set(refs))
    plain = {ref: name for ref in wanted if (name := _plain_name(ref)) is not None}
    found, taken = dict(plain), set(plain.values())
    # In an order of their own, so that the order of selection changes no name.
    for ref in (ref for ref in wanted if ref not in plain):
        digest = hashlib.sha256(ref.encode("utf-8")).hexdigest()
        longer = (_digest_name(ref, digest[:n]) for n in range(_DIGEST_CHARS, _MAX_NAME - 1))
        found[ref] = next(name for name in longer if name not in taken)
        taken.add(found[ref])
    return MappingProxyType(found)


def _plain_name(ref: str) -> str | None:
    server, tool = split_ref(ref)
    name = f"{server}__{tool}"
    # The first "__" must be where the server's name ends.
    leads_back = "__" not in server and not server.endswith("_")
    return name if leads_back and TOOL_NAME.fullmatch(name) else None


def _digest_name(ref: str, digest: str) -> str:
    server, tool = split_ref(ref)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if not re.match(r"[A-Za-z_]", name):
        name = f"t_{name}"
    return f"{name[: _MAX_NAME - len(digest) - 1]}_{digest}"


def definition_digest(definition: Mapping[str, Any]) -> str:
    """Return a digest over what calls of a tool rely on: its name and schemas."""
    facts = {key: definition[key] for key in _CONTRACT if definition.get(key) is not None}
    return _digest(facts)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def load_definition(
    server: McpServer, name: str, definition: Any, *, version: str | None
) -> tuple[LoadedTool, McpOrigin]:
    """Make a tool of what a server says about it. Nothing of the server runs.

    Args:
        server: Its configuration.
        name: The model-visible name.
        definition: One entry of ``tools/list``, as sent.
        version: Of the server, as it says.

    Raises:
        ManifestError: ``manifest_invalid`` with every problem; pointers are into the definition.
    """
    identity = f"mcp/{server.name}/{definition.get('name', '')}"
    try:
        frozen = freeze(definition)
    except NotJson as exc:
        raise _invalid(identity, [exc.problem]) from None
    size = len(json.dumps(frozen, ensure_ascii=True))
    if size > MAX_MANIFEST_BYTES:
        problem = Problem("", f"has {size} bytes; the limit is {MAX_MANIFEST_BYTES}")
        raise _invalid(identity, [problem])
    problems: list[Problem] = []
    description = _description(server, frozen, problems)
    schema = frozen.get("inputSchema")
    compiled = _compile(schema, "/inputSchema", problems)
    output = frozen.get("outputSchema")
    compiled_output = None
    if output is not None:
        compiled_output = _compile(output, "/outputSchema", problems)
    if compiled is not None and schema.get("type") != "object":
        message = 'the schema\'s own "type" must be "object"'
        problems.append(Problem("/inputSchema/type", message))
    if problems or compiled is None:
        raise _invalid(identity, problems)
    shown_version = escape_text(version or "unknown", keep_newlines=False)[:_MAX_VERSION_CHARS]
    manifest = ToolManifest(
        id=frozen["name"],
        version=shown_version,
        name=name,
        description=description,
        input_schema=schema,
        entry="",
        language="mcp",
        condition_sources=("arguments",),
        effects_schema=None,
        panels=(),
        compiled_input=compiled,
        compiled_effects=None,
        warnings=(),
    )
    snapshot = Snapshot(
        digest=_digest([server.command, list(server.args), server.url, frozen]),
        source=f"mcp.servers.{server.name}",
        entries=MappingProxyType({}),
        files=MappingProxyType({}),
        in_memory=True,
    )
    loaded = LoadedTool(identity, "mcp", manifest, snapshot, ())
    origin = McpOrigin(server.name, frozen["name"], compiled_output, definition_digest(frozen))
    return loaded, origin


def _description(server: McpServer, definition: Mapping[str, Any], problems: list[Problem]) -> str:
    for key in ("description", "title"):
        text = definition.get(key)
        if text is not None and not isinstance(text, str):
            problems.append(Problem(f"/{key}", "must be a string"))
        elif text is not None and text.strip():
            size = len(text.encode("utf-8"))
            if size > MAX_DESCRIPTION_BYTES:
                message = f"has {size} bytes; the limit is {MAX_DESCRIPTION_BYTES}"
                problems.append(Problem(f"/{key}", message))
            return text
    return f"The tool {definition['name']!r} of the MCP server {server.name!r}."


def _compile(schema: Any, pointer: str, problems: list[Problem]) -> CompiledSchema | None:
    if not isinstance(schema, dict):
        problems.append(Problem(pointer, "must be a JSON Schema that is an object"))
        return None
    try:
        return compile_schema(schema, base_pointer=pointer)
    except SchemaError as exc:
        problems.extend(exc.problems or (Problem(pointer, exc.message),))
        return None


def _invalid(identity: str, problems: list[Problem]) -> ManifestError:
    return ManifestError(
        "manifest_invalid", first_problem(problems), where=identity, problems=tuple(problems)
    )
