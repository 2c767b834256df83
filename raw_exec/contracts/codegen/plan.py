"""What a generated file will contain, decided before a line of it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ..subset import find_subset_problems
from ..subset.check import Role
from .model import GenerationError, Lock, Prompt, Tool
from .names import Namespace, split_ref, tool_base, version_suffix
from .shapes import Shape, build_shape

__all__ = ["Binding", "Contract", "Plan", "draft_warnings", "make_plan", "tool_definition"]

_VERSION: Final = re.compile(r"[0-9A-Za-z.+-]{1,100}")
_WIRE: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Contract:
    """One tool version of the file, whoever pins it.

    Args:
        name: Base of its type names, for example ``VendorWebSearchTool``.
    """

    name: str
    tool: Tool
    input: Shape
    output: Shape | None

    @property
    def ref(self) -> str:
        return f"{self.tool.ref}@{self.tool.version}"


@dataclass(frozen=True, slots=True)
class Binding:
    """One prompt of the file, and the contracts behind its pins in pin order."""

    name: str
    prompt: Prompt
    contracts: tuple[Contract, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a file, sorted, and the names that are taken."""

    contracts: tuple[Contract, ...]
    bindings: tuple[Binding, ...]
    namespace: Namespace


def make_plan(lock: Lock, reserved: frozenset[str]) -> Plan:
    """Check a lock and name everything in it.

    Args:
        reserved: Names that the file of this language needs for itself.

    Raises:
        GenerationError: As listed there.
    """
    prompts = sorted(lock.prompts, key=lambda prompt: prompt.ref)
    for one, other in pairwise(prompts):
        if one.ref == other.ref:
            raise GenerationError("duplicate_prompt", f"prompt {one.ref} is there twice")
    for prompt in prompts:
        _check_pins(prompt)
    contracts = _contracts(prompts)
    namespace = Namespace(reserved)
    for contract in contracts.values():
        for suffix in ("", "Input", "InputSchema", "Output", "Async"):
            namespace.claim(contract.name + suffix, f"tool {contract.ref}")
    bindings = []
    for prompt in prompts:
        name = tool_base(prompt.ref)
        for suffix in ("Prompt", "Tools", "ToolsAsync"):
            namespace.claim(name + suffix, f"prompt {prompt.ref}")
        pinned = tuple(contracts[tool.ref, tool.version] for tool in prompt.tools)
        bindings.append(Binding(name, prompt, pinned))
    return Plan(tuple(contracts.values()), tuple(bindings), namespace)


def _check_pins(prompt: Prompt) -> None:
    # Security: references and versions stand in comments of generated code.
    named = [(prompt.ref, prompt.version), *((tool.ref, tool.version) for tool in prompt.tools)]
    for ref, version in named:
        split_ref(ref)
        if not _VERSION.fullmatch(version):
            raise GenerationError("bad_ref", f"{ref} has the version {version!a:.90}")
    seen: set[str] = set()
    for tool in prompt.tools:
        if not _WIRE.fullmatch(tool.wire_name):
            raise GenerationError(
                "wire_name",
                f"prompt {prompt.ref} pins {tool.ref} under the wire name {tool.wire_name!a:.90}, "
                "which providers refuse",
                hint="use ^[a-zA-Z0-9_-]{1,64}$",
            )
        if tool.wire_name in seen:
            raise GenerationError(
                "duplicate_wire_name",
                f"prompt {prompt.ref} pins two tools under the wire name {tool.wire_name!r}",
                hint="rename one of the two pins",
            )
        seen.add(tool.wire_name)


def _contracts(prompts: list[Prompt]) -> dict[tuple[str, str], Contract]:
    tools: dict[tuple[str, str], Tool] = {}
    for prompt in prompts:
        for tool in prompt.tools:
            first = tools.setdefault((tool.ref, tool.version), tool)
            if _content(first) != _content(tool):
                raise GenerationError(
                    "content_differs",
                    f"{tool.ref}@{tool.version} is pinned twice with different content",
                    hint="update the lock: a draft was changed in between",
                )
    versions: dict[str, int] = {}
    for ref, _ in tools:
        versions[ref] = versions.get(ref, 0) + 1
    found: dict[tuple[str, str], Contract] = {}
    for (ref, version), tool in sorted(tools.items(), key=lambda item: item[0]):
        name = tool_base(ref) + "Tool"
        if versions[ref] > 1:
            name += version_suffix(version)
        output = tool.output_schema
        found[ref, version] = Contract(
            name,
            tool,
            _shape(tool, tool.input_schema, "input"),
            None if output is None else _shape(tool, output, "output"),
        )
    return found


def _content(tool: Tool) -> str:
    return json.dumps(
        [tool.description, tool.input_schema, tool.output_schema], sort_keys=True, default=dict
    )


def _shape(tool: Tool, schema: Mapping[str, Any], role: Role) -> Shape:
    problems = find_subset_problems(schema, role=role)
    if problems:
        listed = "; ".join(f"{p.pointer or '/'}: {p.message}" for p in problems[:3])
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise GenerationError(
            "schema_outside_subset",
            f"no bindings can be generated from the {role} schema: {listed}{more}",
            where=f"{tool.ref}@{tool.version}",
            hint="pin a version whose schema stays inside the subset",
            problems=problems,
        )
    return build_shape(schema)


def tool_definition(tool: Tool) -> str:
    """Return what a model is told about a pinned tool, as JSON text.

    The schema stays as its author wrote it. What the tool returns is told in the description,
    in the same words as by the public generator, so that a prompt behaves the same with both.
    """
    description = tool.description
    if tool.output_schema is not None:
        returns = json.dumps(
            tool.output_schema,
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            default=dict,
        )
        description += f"\n\nReturns JSON matching: {returns}"
    return json.dumps(
        {
            "name": tool.wire_name,
            "description": description,
            "input_schema": tool.input_schema,
        },
        ensure_ascii=False,
        separators=(",", ":"),
        default=dict,
    )


def draft_warnings(binding: Binding) -> list[str]:
    """Return what to say when a prompt is asked for: that it, or what it pins, can change."""
    prompt = binding.prompt
    found = []
    if prompt.draft:
        found.append(f"prompt {prompt.ref} is a draft version; it can change")
    drafts = [tool.wire_name for tool in prompt.tools if tool.draft]
    if drafts:
        listed = ", ".join(drafts)
        found.append(f"prompt {prompt.ref} pins draft tool versions, which can change: {listed}")
    return found
