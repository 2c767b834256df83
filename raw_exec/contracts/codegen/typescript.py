"""Write TypeScript bindings: zod 4, one module, for ES2022 and later."""

from __future__ import annotations

import re
from typing import Final

from .model import Lock
from .plan import Binding, Contract, Plan, draft_warnings, make_plan, tool_definition
from .preamble import preamble
from .typescript_types import quoted, static_type, zod

__all__ = ["generate_typescript"]

_HEADER: Final = """/* eslint-disable */
// Typed bindings of pinned tool contracts. Generated: run `raw generate` instead of editing.
"""
_DECLARED: Final = re.compile(
    r"^(?:export )?(?:async )?(?:class|interface|type|const|function) (\w+)", re.MULTILINE
)
_NAMES: Final = frozenset({*_DECLARED.findall(preamble("typescript")), "Prompts", "getPrompt", "z"})


def generate_typescript(lock: Lock) -> str:
    """Return the text of a TypeScript module with bindings for every prompt of a lock.

    Raises:
        GenerationError: The lock or a schema can not be expressed.
    """
    plan = make_plan(lock, _NAMES)
    blocks: list[str] = []
    if plan.contracts:
        blocks.append('import { z } from "zod";')
        blocks.append(preamble("typescript").strip("\n"))
        blocks += [_contract(contract) for contract in plan.contracts]
    blocks += [_prompt(binding) for binding in plan.bindings]
    blocks.append(_get_prompt(plan))
    return _HEADER + "\n" + "\n\n".join(blocks) + "\n"


def _contract(contract: Contract) -> str:
    name, ref = contract.name, contract.ref
    output = "unknown" if contract.output is None else static_type(contract.output)
    return f"""/** Arguments of {ref}, by the model. */
export type {name}Input = {static_type(contract.input)};

export const {name}InputSchema: z.ZodType<{name}Input> = json({zod(contract.input)});

/** What an implementation of {ref} returns. */
export type {name}Output = {output};

/** An implementation of {ref}, sync or async. */
export type {name} = (input: {name}Input) => {name}Output | Promise<{name}Output>;"""


def _prompt(binding: Binding) -> str:
    prompt, name = binding.prompt, binding.name
    pins = list(zip(prompt.tools, binding.contracts, strict=True))
    ref, version = quoted(prompt.ref), quoted(prompt.version)
    lines: list[str] = []
    if pins:
        lines += [
            f"export interface {name}Tools {{",
            *(f"  {quoted(t.wire_name)}: {c.name};" for t, c in pins),
            "}",
            "",
            f"const {name}Schemas: ReadonlyMap<string, z.ZodType> = new Map<string, z.ZodType>([",
            *(f"  [{quoted(t.wire_name)}, {c.name}InputSchema]," for t, c in pins),
            "]);",
            "",
            f"const {name}Defs: readonly string[] = [",
            *(f"  {quoted(tool_definition(t))}," for t, _ in pins),
            "];",
            "",
        ]
    lines += [
        f"/** {prompt.ref}@{prompt.version} */",
        f"export class {name}Prompt {{",
        f"  readonly ref = {ref};",
        f"  readonly version = {version};",
    ]
    if pins:
        lines += [
            "",
            "  /** Every pinned tool as a model is told of it, in pin order. */",
            "  toolDefs(): ToolDef[] {",
            f"    return {name}Defs.map((text) => JSON.parse(text) as ToolDef);",
            "  }",
            "",
            "  /**",
            "   * Check the model's arguments and call the implementation, once.",
            "   * Only ToolExecutionError becomes a failure; anything else that is thrown passes.",
            "   */",
            f"  dispatchTool(name: string, rawInput: unknown, tools: {name}Tools): "
            "Promise<ToolResult> {",
            f"    return dispatch(this.ref, {name}Schemas, name, rawInput, tools);",
            "  }",
        ]
    lines.append("}")
    return "\n".join(lines)


def _get_prompt(plan: Plan) -> str:
    lines = ["export interface Prompts {"]
    lines += [f"  {quoted(one.prompt.ref)}: {one.name}Prompt;" for one in plan.bindings]
    lines += [
        "}",
        "",
        "/** Return a prompt of the project by its reference. */",
        "export function getPrompt<R extends keyof Prompts>(ref: R): Prompts[R];",
        "export function getPrompt(ref: string): Prompts[keyof Prompts] {",
        "  switch (ref) {",
    ]
    for one in plan.bindings:
        lines.append(f"    case {quoted(one.prompt.ref)}:")
        lines += [f"      console.warn({quoted(text)});" for text in draft_warnings(one)]
        lines.append(f"      return new {one.name}Prompt();")
    lines += [
        "    default:",
        "      throw new RangeError(`no prompt ${JSON.stringify(ref)} in this project`);",
        "  }",
        "}",
    ]
    return "\n".join(lines)
