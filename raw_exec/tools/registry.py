"""Load the selected tools of an agent into an immutable registry.

Rules:

1. The order is that of ``tools.use``. Folders that are not selected are never opened.
2. Every selected tool is loaded and bound before anything is reported; all problems come in
   one error.
3. A registry is a value: ``with_tools`` returns a new one, and a conflict is an error. A call
   in flight keeps the registry that it started with.
4. Tools of MCP servers are only known once their server runs. Until then they are ``pending``;
   ``with_servers`` puts them in their place, or among ``missing`` with the reason.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..config import AgentConfig, Config, ToolUse
from ..errors import ConfigError, ManifestError, PolicyError, Problem, first_problem
from ..fields import did_you_mean
from ..manifest import LoadedTool, Snapshot, ToolManifest, load_tool
from ..manifest.load import Source
from ..policy import RuleSet, ToolPolicy
from ..schema import CompiledSchema
from ..values import escape_pointer
from .definitions import cache_key, definition
from .mcp import McpOrigin, MissingTool, mcp_names, split_ref
from .review import check_review
from .roots import ToolRoots, discover, tool_roots

__all__ = ["Tool", "ToolRegistry", "bind_tool", "load_registry"]

_MAX_PROBLEMS = 200
_SOURCES: tuple[Source, ...] = ("builtin", "local", "agent")
Found = tuple[LoadedTool, McpOrigin] | MissingTool
"""What became of a pending tool."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One selected tool, validated and bound to its rules.

    Args:
        identity: Policy identity, for example ``"local/append_notes"``.
        name: What the model calls it.
        profile: Name of its sandbox profile.
        mcp: Where it comes from, when an MCP server runs it.
    """

    identity: str
    source: Source
    name: str
    manifest: ToolManifest
    snapshot: Snapshot
    policy: ToolPolicy
    profile: str
    mcp: McpOrigin | None = None

    @property
    def input_schema(self) -> CompiledSchema:
        """Validator for arguments."""
        return self.manifest.compiled_input

    @property
    def effects_schema(self) -> CompiledSchema | None:
        """Validator for effects, when the tool declares them."""
        return self.manifest.compiled_effects

    @property
    def language(self) -> str:
        """``esm`` or ``python``; ``mcp`` when an MCP server runs it."""
        return self.manifest.language

    @property
    def hidden(self) -> bool:
        """Whether an unconditional deny keeps it from the model."""
        return self.policy.hidden is not None


@dataclass(frozen=True, slots=True)
class ToolRegistry:
    """The tools of one agent. Immutable; look-up by name is one dict access.

    Args:
        tools: All selected tools in order, hidden ones included.
        warnings: For the operator and for authors.
        cache_key: Changes when what the model sees, or a selected tool's content, changes.
        pending: Selected tools of MCP servers that were not asked yet.
        missing: Selected tools that can't be called, and why.
    """

    tools: tuple[Tool, ...]
    warnings: tuple[str, ...]
    cache_key: str
    names: tuple[str, ...]
    _by_name: Mapping[str, Tool] = field(repr=False, compare=False)
    pending: tuple[ToolUse, ...] = ()
    missing: tuple[MissingTool, ...] = ()

    def get(self, name: str) -> Tool | None:
        """Return a selected tool by its model-visible name, hidden or not."""
        return self._by_name.get(name)

    def by_identity(self, identity: str) -> Tool | None:
        """Return a selected tool by its policy identity."""
        return next((tool for tool in self.tools if tool.identity == identity), None)

    def find_missing(self, name: str) -> MissingTool | None:
        """Return a selected tool that can't be called, by name or identity."""
        return next((tool for tool in self.missing if name in (tool.name, tool.identity)), None)

    def pending_names(self) -> Mapping[str, str]:
        """Return the model-visible name of each pending tool by its selection ID."""
        named = {use.ref: use.as_name for use in self.pending if use.as_name is not None}
        return {**mcp_names(use.ref for use in self.pending if use.ref not in named), **named}

    def with_servers(self, config: Config, found: Mapping[str, Found]) -> ToolRegistry:
        """Return a registry in which every pending tool is in its place, or missing.

        Args:
            found: What became of each pending tool, by its selection ID.

        Raises:
            ConfigError: ``tool_conflict``: two tools have one name.
        """
        folders = {tool.identity: tool for tool in self.tools}
        tools: list[Tool] = []
        missing: list[MissingTool] = []
        for use in config.agent.tools_use:
            if use.ref in folders:
                tools.append(folders[use.ref])
                continue
            one = found[use.ref]
            bound = one if isinstance(one, MissingTool) else _bind_served(config, *one)
            if isinstance(bound, MissingTool):
                missing.append(bound)
            else:
                tools.append(bound)
        warnings = (*self.warnings, *map(str, missing))
        return dataclasses.replace(_build(tuple(tools), warnings), missing=tuple(missing))

    def definitions(self) -> list[dict[str, Any]]:
        """Return what the model is told: visible tools in order."""
        return [definition(tool.name, tool.manifest) for tool in self.tools if not tool.hidden]

    def with_tools(self, tools: Iterable[Tool]) -> ToolRegistry:
        """Return a registry that has these tools as well, after the present ones.

        Raises:
            ConfigError: ``tool_conflict``: a name or identity is taken.
        """
        return _build((*self.tools, *tools), self.warnings)

    def with_tool(self, tool: Tool) -> ToolRegistry:
        """Return a registry that has this tool as well."""
        return self.with_tools((tool,))


def _build(tools: tuple[Tool, ...], warnings: tuple[str, ...]) -> ToolRegistry:
    problems = tuple(_conflicts(tools))
    if problems:
        raise ConfigError("tool_conflict", problems[0].message, problems=problems)
    visible = [tool for tool in tools if not tool.hidden]
    return ToolRegistry(
        tools=tools,
        warnings=warnings,
        cache_key=cache_key(
            (tool.identity, tool.name, tool.snapshot.digest, not tool.hidden) for tool in tools
        ),
        names=tuple(tool.name for tool in visible),
        _by_name=MappingProxyType({tool.name: tool for tool in tools}),
    )


def _conflicts(tools: Iterable[Tool]) -> Iterable[Problem]:
    names: dict[str, Tool] = {}
    identities: set[str] = set()
    for tool in tools:
        if tool.identity in identities:
            yield Problem("", f"{tool.identity!r} is selected twice")
            continue
        identities.add(tool.identity)
        first = names.setdefault(tool.name, tool)
        if first is not tool:
            yield Problem(
                "",
                f"{first.identity!r} and {tool.identity!r} both have the name {tool.name!r}; "
                f'rename one: {{"ref": {tool.identity!r}, "as": NAME}}'.replace("'", '"'),
            )


def bind_tool(
    config: Config, loaded: LoadedTool, rules: RuleSet, *, name: str | None = None
) -> Tool:
    """Make a tool of a loaded folder: bound to rules, with its sandbox profile.

    Args:
        rules: Those of the agent, or others where the folder has no identity yet.
        name: Instead of the manifest's.

    Raises:
        PolicyError: A rule that matches does not fit the tool.
    """
    manifest = loaded.manifest
    policy = rules.bind(
        loaded.identity,
        condition_sources=manifest.condition_sources,
        schemas={"arguments": manifest.compiled_input, "effects": manifest.compiled_effects},
    )
    profile = config.profile_name(loaded.identity)
    check_review(config, policy, profile)
    return Tool(
        identity=loaded.identity,
        source=loaded.source,
        name=name or manifest.name,
        manifest=manifest,
        snapshot=loaded.snapshot,
        policy=policy,
        profile=profile,
    )


def _bind_served(config: Config, loaded: LoadedTool, origin: McpOrigin) -> Tool | MissingTool:
    """Bind a server's tool to the rules; one that they do not fit is withheld, alone."""
    name = loaded.manifest.name
    try:
        tool = bind_tool(config, loaded, config.agent.rules, name=name)
    except PolicyError as exc:
        where = _rule_pointer(config.agent, exc.rule)
        hint = (
            "a server's tool has no effects, and nothing of it can be withheld: a condition can "
            "look at arguments that it declares, and 'review' does not fit"
        )
        return MissingTool(loaded.identity, name, f"{where}: {exc.message}", hint)
    return dataclasses.replace(tool, mcp=origin)


@dataclass(slots=True)
class _Loader:
    config: Config
    roots: ToolRoots
    problems: list[Problem]
    warnings: list[str]
    pending: list[ToolUse] = field(default_factory=list)

    def load(self, use: ToolUse) -> Tool | None:
        source, _, rest = use.ref.partition("/")
        if source == "mcp":
            self.add_pending(use)
            return None
        if source not in _SOURCES or not rest:
            self.add(use, f"must be {' or '.join(f'{s}/<id>' for s in _SOURCES)}")
            return None
        try:
            loaded = load_tool(self.roots.path(source), rest, source=source)
        except ManifestError as exc:
            self.add_manifest_error(use, source, rest, exc)
            return None
        return self.bind(use, loaded)

    def bind(self, use: ToolUse, loaded: LoadedTool) -> Tool | None:
        agent = self.config.agent
        self.warnings.extend(loaded.warnings)
        try:
            return bind_tool(self.config, loaded, agent.rules, name=use.as_name)
        except PolicyError as exc:
            self.problems.append(
                Problem(_rule_pointer(agent, exc.rule), f"for {loaded.identity!r}: {exc.message}")
            )
            return None

    def add_pending(self, use: ToolUse) -> None:
        server, _ = split_ref(use.ref)
        if server in self.config.mcp:
            self.pending.append(use)
            return
        known = f"; there is {', '.join(self.config.mcp)}" if self.config.mcp else ""
        hint = did_you_mean(server, self.config.mcp) or known
        self.add(use, f"mcp.servers has no {server!r}{hint}")

    def add(self, use: ToolUse, message: str) -> None:
        self.problems.append(Problem(use.pointer, f"{use.ref!r}: {message}"))

    def add_manifest_error(
        self, use: ToolUse, source: Source, tool_id: str, exc: ManifestError
    ) -> None:
        if exc.code == "tool_not_found":
            self.add(use, f"there is no such tool{self.near(source, tool_id)}")
            return
        hint = f"; {exc.hint}" if exc.hint else ""
        for problem in exc.problems:
            self.add(use, f"{exc.where}: {problem}{hint}")
        if not exc.problems:
            self.add(use, f"{exc}{hint}")

    def near(self, source: Source, tool_id: str) -> str:
        elsewhere = [
            f"{other}/{tool_id}"
            for other in _SOURCES
            if other != source and tool_id in discover(self.roots.path(other))
        ]
        root = self.roots.path(source)
        if elsewhere:
            return f" in {root}; there is {' and '.join(map(repr, elsewhere))}"
        known = discover(root)
        if not known:
            return f"; {root} has no tools"
        hint = did_you_mean(tool_id, known)
        return f" in {root}{hint or '; it has ' + ', '.join(known[:10])}"


def _rule_pointer(agent: AgentConfig, rule: int | None) -> str:
    base = f"/agents/{escape_pointer(agent.name)}/tools/rules"
    return base if rule is None else f"{base}/{rule}"


def load_registry(
    config: Config,
    *,
    builtin_root: Path | None = None,
    store: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ToolRegistry:
    """Load every selected tool of the chosen agent. Runs no tool code, and starts no server.

    Args:
        builtin_root: Instead of the built-in tools of this package.
        store: Where to materialise snapshots that are too big to keep in memory.
        environ: Instead of the process environment, for ``XDG_CONFIG_HOME``.

    Raises:
        ConfigError: ``tools_invalid`` with every problem of every tool, or ``tool_conflict``.
    """
    loader = _Loader(config, tool_roots(config, builtin_root=builtin_root, environ=environ), [], [])
    with _no_collection():
        tools = _load_all(config, loader, store)
    problems = loader.problems
    if problems:
        where = None if config.path is None else str(config.path)
        raise ConfigError(
            "tools_invalid",
            first_problem(problems),
            where=where,
            problems=tuple(problems[:_MAX_PROBLEMS]),
        )
    identities = (*(tool.identity for tool in tools), *(use.ref for use in loader.pending))
    warnings = [*loader.warnings, *_unused_rules(config.agent, identities)]
    registry = _build(tuple(tools), tuple(warnings))
    return dataclasses.replace(registry, pending=tuple(loader.pending))


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cycle collector: all that is made here lives on and would be rescanned."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _load_all(config: Config, loader: _Loader, store: Path | None) -> list[Tool]:
    tools = []
    for use in config.agent.tools_use:
        tool = loader.load(use)
        if tool is None:
            continue
        if store is not None and not tool.snapshot.in_memory:
            try:
                tool = dataclasses.replace(tool, snapshot=tool.snapshot.kept_in(store))
            except ManifestError as exc:
                loader.add(use, str(exc))
            except OSError as exc:
                loader.add(use, f"can not be kept in {store}: {exc.strerror}")
        tools.append(tool)
    return tools


def _unused_rules(agent: AgentConfig, identities: Iterable[str]) -> Iterable[str]:
    for rule in agent.rules.unmatched(identities):
        yield f"{_rule_pointer(agent, rule.index)}: {rule.match!r} matches no selected tool"
