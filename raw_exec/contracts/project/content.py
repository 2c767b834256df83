"""What a prompt version says, as one JSON document, and the digest that pins it.

The digest covers all that is frozen by publishing and reaches code or a model: files, pins
with their schemas and texts, metadata, output schema, model config. It leaves out what may
change without a new version (catalogue texts, visibility, times, ids) and what a registry
infers (the schemas of templates).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from ...jsontext import JsonTextError, parse
from ..codegen import Tool
from ..errors import Invalid
from ..model import PromptVersion
from ..names import Ref, check_file_name, check_wire_name, parse_ref
from ..versions import check_version, is_label
from .files import MAX_FILE_BYTES

__all__ = ["Content", "content_of", "read_content"]

_MAX_NODES: Final = 2_000_000
_MAX_DEPTH: Final = 128
_KINDS: Final[dict[str, Any]] = {
    "metadata": dict,
    "output_schema": dict | None,
    "decision_spec": dict | None,
    "model_config": dict | None,
    "files": list,
    "tools": list,
    "hidden_tools": int,
}
"""Members of the document, and what each is at its root."""


@dataclass(frozen=True, slots=True)
class Content:
    """One prompt version, checked.

    Args:
        document: JSON data: ``prompt``, ``version``, ``kind``, ``metadata``,
            ``output_schema``, ``decision_spec``, ``model_config``, ``files``, ``tools``,
            ``hidden_tools``.
    """

    ref: Ref
    version: str
    document: dict[str, Any]

    @property
    def is_draft(self) -> bool:
        """Whether the version can still change."""
        return is_label(self.version)

    @property
    def integrity(self) -> str:
        """``sha256-<hex>`` over the canonical document."""
        return "sha256-" + hashlib.sha256(_canonical(self.document).encode()).hexdigest()

    @property
    def text(self) -> str:
        """The document as it is kept in a file."""
        return json.dumps(self.document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"

    def tools(self) -> tuple[Tool, ...]:
        """The pins in order, as bindings are generated from them."""
        return tuple(
            Tool(
                wire_name=one["wire_name"],
                ref=one["ref"],
                version=one["version"],
                input_schema=one["input_schema"],
                description=one["model_description"],
                output_schema=one["output_schema"],
                draft=is_label(one["version"]),
            )
            for one in self.document["tools"]
        )

    def warnings(self, key: str) -> list[str]:
        """Return what somebody who installs it under ``key`` has to know."""
        out: list[str] = []
        if self.is_draft:
            out.append(f'prompt "{key}" resolved to draft version {self.version}')
        out.extend(
            f'prompt "{key}" pins draft tool "{tool.wire_name}"'
            for tool in self.tools()
            if tool.draft
        )
        if hidden := self.document["hidden_tools"]:
            out.append(f'prompt "{key}" pins {hidden} tool(s) that you may not read; left out')
        return out


def _canonical(value: Any) -> str:
    return json.dumps(
        _integral(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def _integral(value: Any) -> Any:
    """Return a value with one spelling for numbers that JSON takes for the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return value


def content_of(version: PromptVersion) -> Content:
    """Return the content of a registry's answer.

    Raises:
        Invalid: ``bad_content``; a server that is not ours may send any names.
    """
    config = version.model_config
    document: dict[str, Any] = {
        "prompt": version.prompt.ref,
        "version": version.version,
        "kind": version.prompt.kind.value,
        "metadata": version.metadata,
        "output_schema": version.output_schema,
        "decision_spec": version.decision_spec,
        "model_config": config
        and {
            "provider": config.provider.value,
            "model": config.model,
            "parameters": config.parameters,
        },
        "files": [
            {
                "name": file.name,
                "content": file.content,
                "is_entrypoint": file.is_entrypoint,
                "format": file.format.value,
            }
            for file in version.files
        ],
        "tools": [
            {
                "wire_name": pin.alias,
                "ref": pin.tool_version.tool.ref,
                "version": pin.tool_version.version,
                "model_description": pin.tool_version.model_description,
                "input_schema": pin.tool_version.input_schema,
                "output_schema": pin.tool_version.output_schema,
            }
            for pin in version.pins
        ],
        "hidden_tools": version.hidden_pins,
    }
    return _check(document, "the registry's answer")


def read_content(data: bytes, where: str) -> Content | None:
    """Return the content in a cache's file, or ``None`` when it is not one."""
    try:
        value = parse(
            data, max_bytes=MAX_FILE_BYTES, max_depth=_MAX_DEPTH, max_nodes=_MAX_NODES, where=where
        )
        return _check(value, where)
    except (JsonTextError, Invalid):
        return None


def _check(document: Any, where: str) -> Content:
    """Check what becomes a path or a program's text: names, versions and shapes."""
    try:
        ref = parse_ref(document["prompt"], kind="prompt", version="forbidden")
        version = check_version(document["version"])
        for name, kind in _KINDS.items():
            _expect(isinstance(document[name], kind), name)
        for file in document["files"]:
            check_file_name(file["name"])
            _expect(isinstance(file["content"], str), "files")
        for tool in document["tools"]:
            check_wire_name(tool["wire_name"])
            parse_ref(tool["ref"], kind="tool", version="forbidden")
            check_version(tool["version"])
            _expect(isinstance(tool["model_description"], str), "tools")
            _expect(isinstance(tool["input_schema"], dict), "tools")
            _expect(isinstance(tool["output_schema"], dict | None), "tools")
    except (KeyError, TypeError, AttributeError) as exc:
        raise Invalid(
            "bad_content",
            f"{where} is not a prompt version: {exc}",
            hint="check which registry is asked",
        ) from exc
    return Content(ref, version, document)


def _expect(holds: bool, name: str) -> None:
    if not holds:
        raise TypeError(name)
