"""Write Python bindings: pydantic v2, type-checked, with nothing else to install."""

from __future__ import annotations

import re
from typing import Final

from .model import Lock
from .plan import Binding, Contract, Plan, draft_warnings, make_plan, tool_definition
from .preamble import preamble
from .python_types import InputTypes, OutputTypes, literal

__all__ = ["generate_python"]

_HEADER: Final = '''"""Typed bindings of pinned tool contracts.

Generated: run `raw generate` instead of editing.
"""

# ruff: noqa
# fmt: off
# isort: skip_file

'''
_IMPORTS: Final = """import inspect
import json
import math
import warnings
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    NotRequired,
    TypeAlias,
    TypedDict,
    overload,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    model_validator,
)
"""
_BARE_IMPORTS: Final = """import warnings
from typing import Final, Literal, NoReturn, overload
"""
_NAMES: Final = frozenset(
    re.findall(r"\b[A-Z]\w*", _IMPORTS)
    + re.findall(r"^(?:class |)([A-Z]\w*)\b", preamble("python"), re.MULTILINE)
    + ["get_prompt"]
)


def generate_python(lock: Lock) -> str:
    """Return the text of a Python module with bindings for every prompt of a lock.

    Raises:
        GenerationError: The lock or a schema can not be expressed.
    """
    plan = make_plan(lock, _NAMES)
    blocks: list[str] = []
    if plan.contracts:
        blocks.append(preamble("python").strip("\n"))
        for contract in plan.contracts:
            blocks += _contract(contract, plan)
    blocks += [_prompt(binding) for binding in plan.bindings]
    blocks.append(_get_prompt(plan))
    imports = _IMPORTS if plan.contracts else _BARE_IMPORTS
    return _HEADER + imports + "\n\n" + "\n\n\n".join(blocks) + "\n"


def _contract(contract: Contract, plan: Plan) -> list[str]:
    name = contract.name
    inputs = InputTypes(plan.namespace)
    inputs.root(contract.input, f"{name}Input", f"Arguments of {contract.ref}, by the model.")
    outputs = OutputTypes(plan.namespace)
    outputs.root(contract.output, f"{name}Output")
    aliases = f"""{name}: TypeAlias = Callable[[{name}Input], {name}Output]
{literal(f"An implementation of {contract.ref}.")}

{name}Async: TypeAlias = Callable[[{name}Input], {name}Output | Awaitable[{name}Output]]
{literal(f"An implementation of {contract.ref} that may be async.")}"""
    return [*inputs.blocks, *outputs.blocks, aliases]


def _prompt(binding: Binding) -> str:
    prompt, name = binding.prompt, binding.name
    blocks: list[str] = []
    pins = list(zip(prompt.tools, binding.contracts, strict=True))
    if pins:
        for suffix in ("", "Async"):
            entries = [f"    {literal(t.wire_name)}: {c.name}{suffix}," for t, c in pins]
            head = f'{name}Tools{suffix} = TypedDict("{name}Tools{suffix}", {{'
            blocks.append("\n".join([head, *entries, "})"]))
        blocks.append(
            "\n".join(
                [
                    f"_{name}Inputs: dict[str, type[BaseModel]] = {{",
                    *(f"    {literal(t.wire_name)}: {c.name}Input," for t, c in pins),
                    "}",
                ]
            )
        )
        blocks.append(
            "\n".join(
                [
                    f"_{name}Defs = (",
                    *(f"    {literal(tool_definition(t))}," for t, _ in pins),
                    ")",
                ]
            )
        )
    body = f'''class {name}Prompt:
    """{prompt.ref}@{prompt.version}"""

    ref: Final = {literal(prompt.ref)}
    version: Final = {literal(prompt.version)}'''
    if pins:
        body += f'''

    def tool_defs(self) -> list[ToolDef]:
        """Return every pinned tool as a model is told of it, in pin order."""
        return [json.loads(text) for text in _{name}Defs]

    def dispatch_tool(
        self, name: str, raw_input: object, tools: {name}Tools
    ) -> ToolResult:
        """Check the model's arguments and call the implementation, once.

        Only ToolExecutionError becomes a failure; any other exception passes through.
        """
        return _dispatch(self.ref, _{name}Inputs, name, raw_input, tools)

    async def dispatch_tool_async(
        self, name: str, raw_input: object, tools: {name}ToolsAsync
    ) -> ToolResult:
        """As dispatch_tool, for implementations of which some are async."""
        return await _dispatch_async(self.ref, _{name}Inputs, name, raw_input, tools)'''
    return "\n\n\n".join([*blocks, body])


def _get_prompt(plan: Plan) -> str:
    lines: list[str] = []
    bindings = plan.bindings
    if len(bindings) > 1:
        for one in bindings:
            ref = literal(one.prompt.ref)
            lines += ["@overload", f"def get_prompt(ref: Literal[{ref}]) -> {one.name}Prompt: ..."]
        types = " | ".join(f"{one.name}Prompt" for one in bindings)
        lines.append(f"def get_prompt(ref: str) -> {types}:")
    elif bindings:
        ref = literal(bindings[0].prompt.ref)
        lines.append(f"def get_prompt(ref: Literal[{ref}]) -> {bindings[0].name}Prompt:")
    else:
        lines.append("def get_prompt(ref: str) -> NoReturn:")
    lines.append('    """Return a prompt of the project by its reference."""')
    for one in bindings:
        lines.append(f"    if ref == {literal(one.prompt.ref)}:")
        for text in draft_warnings(one):
            lines.append(f"        warnings.warn({literal(text)}, stacklevel=2)")
        lines.append(f"        return {one.name}Prompt()")
    lines.append('    raise LookupError(f"no prompt {ref!r} in this project")')
    return "\n".join(lines)
