"""What ``raw tools check`` looks at. Nothing of a tool runs outside a sandbox.

The order is that of a call: manifest and schemas, rules, descriptors, exports, and then what
is legal but may not work with every model provider.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..errors import (
    CallRefused,
    ConfigError,
    ManifestError,
    PolicyError,
    Problem,
    RawExecError,
    SandboxError,
    WorkerError,
)
from ..manifest import ToolManifest, load_tool
from ..manifest.tool import TOOL_ID, TOOL_NAME
from ..manifest.tree import MANIFEST_NAME
from ..policy import parse_rules
from ..pool import LoadFailure, WorkerSpec
from ..profiles import (
    LINT_PROFILES,
    PROFILES,
    Profile,
    description_warnings,
    project_input,
)
from ..sandbox import descriptor_plan
from ..schema.portability import find_portability_warnings
from ..tools import Tool, ToolRegistry, ToolRoots, bind_tool, tool_roots

if TYPE_CHECKING:
    from ..manifest.load import Source
    from ..runtime import Runtime

__all__ = [
    "CheckReport",
    "Target",
    "check_served",
    "check_tool",
    "find_targets",
    "load_target",
]

_IDENTITY = re.compile(rf"(agent|local|builtin)/({TOOL_ID.pattern})")


@dataclass(frozen=True, slots=True)
class Target:
    """One tool folder to check, or a tool of an MCP server.

    Args:
        root: The folder that holds it.
        folder: Its name there; ``<server>/<tool>`` of source ``mcp``.
        source: Which root ``root`` is; ``None`` for a folder anywhere else.
    """

    root: Path
    folder: str
    source: Source | None

    @property
    def label(self) -> str:
        """Identity in a root, else the path."""
        return f"{self.source}/{self.folder}" if self.source else str(self.root / self.folder)


@dataclass(slots=True)
class CheckReport:
    """What is known about one tool after its check.

    Args:
        engine: Where its descriptors run: ``none``, ``host``, ``wasm`` or ``worker``; ``None`` when
            that could not be found out.
        fallback: Why it is not ``wasm``.
        exports: What the module exports, ``None`` when that could not be found out.
        problems: Each with ``stage``, ``where``, ``pointer``, ``message``, ``line``, ``column``.
        warnings: What may not work everywhere.
        providers: By provider profile: ``ok``; ``problems``, for which it is withheld from that
            provider; ``told``, the limits that are said in words; and ``warnings``.
    """

    target: str
    folder: str
    version: str | None = None
    language: str | None = None
    digest: str | None = None
    profile: str | None = None
    engine: str | None = None
    fallback: str | None = None
    exports: list[str] | None = None
    problems: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    providers: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the tool would load and be called."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"ok": self.ok, **asdict(self)}

    def add(self, stage: str, exc: RawExecError) -> None:
        """Note what an exception says, each of its problems apart."""
        problems: tuple[Problem, ...] = getattr(exc, "problems", ()) or (Problem("", exc.message),)
        for problem in problems:
            self.problems.append(
                {"stage": stage, "where": exc.where, **asdict(problem), "hint": exc.hint}
            )

    def add_text(self, stage: str, message: str, *, hint: str | None = None) -> None:
        """Note a problem that belongs to no place of a file."""
        self.problems.append(
            {
                "stage": stage,
                "where": None,
                "pointer": "",
                "message": message,
                "line": None,
                "column": None,
                "hint": hint,
            }
        )


def find_targets(config: Config, names: Sequence[str], *, served: bool) -> list[Target]:
    """Say which folders are meant; no names mean every selected tool.

    Args:
        names: Paths of tool folders, identities, or IDs of selected tools.
        served: Whether tools of MCP servers can be among them.

    Raises:
        ConfigError: ``unknown_target``.
    """
    roots = tool_roots(config)
    if not names:
        refs = (use.ref for use in config.agent.tools_use)
        return [_selected(roots, ref, served=served) for ref in refs]
    return [_find_target(config, roots, name, served=served) for name in names]


def _selected(roots: ToolRoots, ref: str, *, served: bool) -> Target:
    match = _IDENTITY.fullmatch(ref)
    if match is not None:
        return _in_root(roots, match)
    if not served:
        raise ConfigError(
            "unknown_target",
            f"{ref!r:.200} can't be verified: a tool of an MCP server ships no cases",
            hint="name the tools to look at",
        )
    return Target(Path("mcp.servers"), ref.removeprefix("mcp/"), "mcp")


def _find_target(config: Config, roots: ToolRoots, name: str, *, served: bool) -> Target:
    if any(use.ref == name for use in config.agent.tools_use if use.ref.startswith("mcp/")):
        return _selected(roots, name, served=served)
    match = _IDENTITY.fullmatch(name)
    if match is not None and not Path(name, MANIFEST_NAME).is_file():
        return _in_root(roots, match)
    if TOOL_NAME.fullmatch(name):
        for use in config.agent.tools_use:
            selected = _IDENTITY.fullmatch(use.ref)
            if selected is not None and name in (use.as_name, selected.group(2)):
                return _in_root(roots, selected)
    path = Path(os.path.abspath(name))
    if path.name == MANIFEST_NAME:
        path = path.parent
    if not path.is_dir():
        raise ConfigError(
            "unknown_target",
            f"{name!r:.200} is neither a tool folder nor a selected tool",
            hint=f"give a folder with a {MANIFEST_NAME}, or an ID like local/word_count",
        )
    return Target(path.parent, path.name, _source_of(config, roots, path))


def _in_root(roots: ToolRoots, match: re.Match[str]) -> Target:
    source: Source = match.group(1)  # type: ignore[assignment]  # the pattern says so
    return Target(roots.path(source), match.group(2), source)


def _source_of(config: Config, roots: ToolRoots, path: Path) -> Source | None:
    """Say which root a folder is in; a selected identity wins where two roots are one."""
    sources: tuple[Source, ...] = ("local", "agent", "builtin")
    parent = os.path.realpath(path.parent)
    found = [source for source in sources if os.path.realpath(roots.path(source)) == parent]
    selected = {use.ref for use in config.agent.tools_use}
    chosen = [source for source in found if f"{source}/{path.name}" in selected]
    return next(iter((*chosen, *found)), None)


def load_target(config: Config, target: Target) -> tuple[CheckReport, Tool | None]:
    """Check everything that needs no process: manifest, schemas, snapshot, rules, lint."""
    report = CheckReport(target.label, str(target.root / target.folder))
    try:
        loaded = load_tool(target.root, target.folder, source=target.source or "local")
    except ManifestError as exc:
        report.add("manifest", exc)
        return report, None
    report.warnings += loaded.warnings
    _describe(report, loaded.manifest, loaded.snapshot.digest, "/input_schema")
    # A folder outside of the roots has no identity, so no rule is about it.
    rules = config.agent.rules if target.source is not None else parse_rules([])
    try:
        tool = bind_tool(config, loaded, rules)
    except PolicyError as exc:
        report.add("rules", exc)
        return report, None
    report.profile = tool.profile if target.source is not None else None
    return report, tool


def check_served(registry: ToolRegistry, target: Target) -> CheckReport:
    """Check a tool of an MCP server by what the server said of it when it was asked."""
    report = CheckReport(target.label, f"mcp.servers.{target.folder.partition('/')[0]}")
    report.language = "mcp"
    missing = registry.find_missing(target.label)
    if missing is not None:
        problems = missing.detail.get("problems") or [{"pointer": "", "message": missing.reason}]
        for problem in problems:
            report.add_text("definition", problem["message"], hint=missing.hint)
            report.problems[-1]["pointer"] = problem["pointer"]
        return report
    tool = registry.by_identity(target.label)
    assert tool is not None  # noqa: S101  (every selected tool is there or missing)
    _describe(report, tool.manifest, tool.snapshot.digest, "/inputSchema")
    report.profile, report.engine = tool.profile, "none"
    return report


def _describe(report: CheckReport, manifest: ToolManifest, digest: str, pointer: str) -> None:
    report.version, report.language = manifest.version, manifest.language
    report.digest = digest
    report.warnings += [
        f"{warning.pointer or '(root)'}: {warning.message} ({warning.rule})"
        for warning in find_portability_warnings(manifest.compiled_input, base_pointer=pointer)
    ]
    report.providers = {name: _fit(manifest, PROFILES[name]) for name in LINT_PROFILES}


def _fit(manifest: ToolManifest, profile: Profile) -> dict[str, Any]:
    """Say how a tool fits a model provider."""
    found = project_input(manifest, profile)
    return {
        "ok": not found.problems,
        "problems": [{"pointer": p.pointer, "message": p.message} for p in found.problems],
        "told": list(found.told),
        "warnings": list(description_warnings(manifest.description, profile)),
    }


async def check_tool(runtime: Runtime, tool: Tool, report: CheckReport) -> None:
    """Load the module where it can do no harm, and compare its exports with the manifest."""
    try:
        inspected = await runtime.descriptors.inspect(tool)
    except CallRefused as exc:
        report.add("descriptors", exc)
        return
    except LoadFailure as exc:
        report.add("exports", exc)
        return
    except (SandboxError, WorkerError) as exc:
        report.warnings.append(f"descriptors not loaded: {exc.message}")
        inspected = {"engine": None, "reason": None, "exports": []}
    report.engine, report.fallback = inspected["engine"], inspected["reason"]
    await _check_exports(runtime, tool, report)
    if report.exports is None:
        return
    if report.engine == "host":
        # Descriptors of this package's own tools are not in the handler's module.
        report.exports = sorted({*report.exports, *inspected["exports"]})
    declares, describes = tool.effects_schema is not None, "describeEffects" in report.exports
    if declares and not describes:
        report.add_text(
            "effects",
            "declares effects_schema, but the module exports no describeEffects",
            hint="export function describeEffects(args, {cwd}), or remove effects_schema",
        )
    elif describes and not declares:
        report.warnings.append(
            "describeEffects is exported and never called: the manifest has no effects_schema"
        )


async def _check_exports(runtime: Runtime, tool: Tool, report: CheckReport) -> None:
    spec = WorkerSpec(
        label=tool.identity,
        language=tool.language,
        kind="descriptor",
        entry=tool.manifest.entry.removeprefix("./"),
        snapshot=tool.snapshot,
        plan=descriptor_plan(runtime.limits),
        principal="check",
    )
    try:
        async with runtime.pool.lease(spec) as lease:
            report.exports = sorted(lease.worker.loaded_exports)
    except (SandboxError, WorkerError) as exc:
        if _is_about_the_host(exc):
            hint = f" ({exc.hint})" if exc.hint else ""
            report.warnings.append(f"exports not verified: {exc.message}{hint}")
            _scan_exports(tool, report)
            return
        report.add("exports", exc)


def _is_about_the_host(exc: RawExecError) -> bool:
    return isinstance(exc, SandboxError) or exc.code == "node_missing"


def _scan_exports(tool: Tool, report: CheckReport) -> None:
    """Look for the word only: a text without it can't export a handler by that name."""
    text = tool.snapshot.read(tool.manifest.entry.removeprefix("./"))
    if b"handler" not in text and b"\\u" not in text and b"export *" not in text:
        report.add_text("exports", "the module exports no function named handler")
