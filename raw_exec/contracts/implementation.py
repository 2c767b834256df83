"""Where contracts and tool folders meet: does this folder do what that contract says?

A folder fits a contract exactly when a model is told the same about both. It is compatible
when it accepts at least every argument that the contract allows, under the same name.

Contract source: ``raw.tool-api/2`` for folders, which declare no output schema.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import ManifestError
from ..manifest import ToolManifest, load_tool
from ..manifest.tool import TOOL_ID, TOOL_NAME
from .compare import Comparison, ContractFace, compare_contracts
from .errors import Invalid
from .model import ToolVersion

__all__ = ["Fit", "check_folder", "contract_face", "load_folder", "scaffold"]

Verdict = Literal["exact", "compatible", "incompatible"]


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a tool folder fits a contract; the contract is the old side of ``comparison``."""

    comparison: Comparison

    @property
    def verdict(self) -> Verdict:
        """``exact``, ``compatible`` or ``incompatible``."""
        if self.comparison.equal:
            return "exact"
        return "incompatible" if self.comparison.breaking else "compatible"


def contract_face(version: ToolVersion, wire_name: str | None = None) -> ContractFace:
    """Return what a model sees of a contract.

    Args:
        wire_name: The pin's alias, when it is not the tool's own name.
    """
    return ContractFace(
        name=version.tool.name if wire_name is None else wire_name,
        description=version.model_description,
        input_schema=version.input_schema,
        output_schema=version.output_schema,
    )


def load_folder(folder: Path) -> ToolManifest:
    """Read a tool folder. Nothing of it is run.

    Raises:
        ManifestError: Whatever is wrong with it.
    """
    path = Path(os.path.abspath(folder))
    if not path.is_dir():
        raise ManifestError(
            "folder_missing", "is not a folder", where=str(path), hint="name a tool's folder"
        )
    return load_tool(path.parent, path.name, source="local").manifest


def check_folder(manifest: ToolManifest, version: ToolVersion, wire_name: str | None = None) -> Fit:
    """Compare a tool folder with a contract."""
    contract = contract_face(version, wire_name)
    # A folder declares no results, so there is nothing to compare with the contract's.
    folder = ContractFace(
        name=manifest.name,
        description=manifest.description,
        input_schema=manifest.input_schema,
        output_schema=contract.output_schema,
    )
    return Fit(compare_contracts(contract, folder))


_ESM = """\
// Implements {ref}.

// Runs before approval, in an engine without files or network: look at `args` only. The
// arguments fit input_schema of tool.json already.
export function validateArgs(args) {{
  return undefined;
}}

// Runs in the sandbox once the call is approved.
export async function handler(args, context) {{
  return {{
    isError: true,
    code: "not_implemented",
    content: [{{ type: "text", text: {message} }}],
  }};
}}
"""

_PYTHON = '''\
"""Implements {ref}."""


def validate_args(args):
    """Runs before approval, where nothing can be written or sent: look at ``args`` only."""
    return None


def handler(args, context):
    """Runs in the sandbox once the call is approved. It may be ``async def``, too."""
    return {{
        "isError": True,
        "code": "not_implemented",
        "content": [{{"type": "text", "text": {message}}}],
    }}
'''


def scaffold(
    version: ToolVersion, folder_name: str, language: str, wire_name: str | None = None
) -> dict[str, str]:
    """Return the files of a tool folder that fits a contract exactly, by name.

    Its handler reports that it is not written yet. An output schema is kept beside it, since
    a handler answers with text or JSON that has to fit it.

    Args:
        folder_name: The folder's name, which is also the tool's ID.
        language: ``"esm"`` or ``"python"``.

    Raises:
        Invalid: ``no_model_description``, ``folder_name`` or ``tool_name``.
    """
    name = version.tool.name if wire_name is None else wire_name
    if not TOOL_ID.fullmatch(folder_name):
        raise Invalid(
            "folder_name",
            f"folder name {folder_name!a:.80} can not be a tool's ID",
            hint=f"use {TOOL_ID.pattern}",
        )
    if not TOOL_NAME.fullmatch(name):
        raise Invalid(
            "tool_name",
            f"tool folders can not have the name {name!a:.80}",
            hint=f"use {TOOL_NAME.pattern}",
        )
    if not version.model_description.strip():
        raise Invalid(
            "no_model_description",
            f"{version.ref} does not say anything to the model yet",
            hint="write it with `raw contract version set-description`",
        )
    manifest = {
        "api_version": 2,
        "id": folder_name,
        # A draft's label without its tail: folders have plain numbers only.
        "version": version.version.partition("-")[0],
        "name": name,
        "description": version.model_description,
        "input_schema": version.input_schema,
        "entry": "./index.mjs" if language == "esm" else "./index.py",
    }
    message = json.dumps(f"{name} is not written yet")
    template, entry = (_ESM, "index.mjs") if language == "esm" else (_PYTHON, "index.py")
    files = {
        "tool.json": _json(manifest),
        entry: template.format(ref=version.ref, message=message),
    }
    if version.output_schema is not None:
        files["output-schema.json"] = _json(version.output_schema)
    return files


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
