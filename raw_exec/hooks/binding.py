"""Load the selected hooks and bind their conditions to the tools that they can match.

Rules:

1. The order is that of ``hooks.use``. Folders that are not selected are never opened.
2. A condition must fit the schema of every selected tool that its ``match`` lets through:
   one that can't be evaluated is an error here, never a silent "no match" later.
3. All problems of all hooks come in one error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..config import Config
from ..errors import ConfigError, ManifestError, PolicyError, Problem
from ..fields import did_you_mean
from ..manifest import HookManifest, LoadedHook, Snapshot, Subscription, load_hook
from ..manifest.hook import Source
from ..policy import BoundPredicate, bind_predicate
from ..tools import Tool
from ..values import escape_pointer
from .roots import HookRoots, discover_hooks, hook_roots

__all__ = ["BoundHook", "HookSet", "bind_subscription", "load_hooks"]

_MAX_PROBLEMS = 200
_SOURCES: tuple[Source, ...] = ("local", "agent")


@dataclass(frozen=True, slots=True)
class BoundHook:
    """One selected hook, validated and bound to the selected tools.

    Args:
        identity: Selection ID, for example ``"agent/guard"``.
        predicates: By index of the event and identity of the tool.
    """

    identity: str
    manifest: HookManifest
    snapshot: Snapshot
    predicates: Mapping[tuple[int, str], BoundPredicate] = field(repr=False)

    @property
    def events(self) -> tuple[str, ...]:
        """Names of the events that it may be told of, each once, in its order."""
        return tuple(dict.fromkeys(entry.event for entry in self.manifest.events))

    def subscribes(self, event: str) -> bool:
        """Return whether any of its entries is about an event."""
        return any(entry.event == event for entry in self.manifest.events)

    def match(self, event: str, tool: Tool, arguments: Any, effects: Any) -> Subscription | None:
        """Return its first entry that a call matches.

        Raises:
            PolicyError: The tool was not there at load, and a condition does not fit it.
        """
        for entry in self.manifest.events:
            if entry.event != event or not entry.reaches(tool.identity):
                continue
            if entry.when is None:
                return entry
            bound = self.predicates.get((entry.index, tool.identity))
            if bound is None:
                bound = bind_subscription(self.identity, entry, tool)
            value = arguments if entry.when.source == "arguments" else effects
            if value is not None and bound.match(value) is not None:
                return entry
        return None


@dataclass(frozen=True, slots=True)
class HookSet:
    """The hooks of one agent, in order.

    Args:
        hooks: All selected hooks.
        warnings: For the operator.
    """

    hooks: tuple[BoundHook, ...] = ()
    warnings: tuple[str, ...] = ()

    def get(self, identity: str) -> BoundHook | None:
        """Return a selected hook by its selection ID."""
        return next((hook for hook in self.hooks if hook.identity == identity), None)


def bind_subscription(identity: str, entry: Subscription, tool: Tool) -> BoundPredicate:
    """Check the condition of one entry against one tool.

    Raises:
        PolicyError: As ``bind_predicate``, with hook, event index and tool in ``where``.
    """
    assert entry.when is not None  # noqa: S101  (only then is there anything to bind)
    return bind_predicate(
        entry.when,
        condition_sources=tool.manifest.condition_sources,
        schemas={"arguments": tool.input_schema, "effects": tool.effects_schema},
        where=f"hook {identity!r}, events[{entry.index}].when for tool {tool.identity!r}",
    )


@dataclass(slots=True)
class _Loader:
    roots: HookRoots
    tools: tuple[Tool, ...]
    store: Path | None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    pending: tuple[str, ...] = ()

    def load(self, ref: str, pointer: str) -> BoundHook | None:
        source, _, name = ref.partition("/")
        if source not in _SOURCES or not name:
            self.add(pointer, ref, f"must be {' or '.join(f'{s}/<name>' for s in _SOURCES)}")
            return None
        try:
            loaded = load_hook(self.roots.path(source), name, source=source)
            if self.store is not None and not loaded.snapshot.in_memory:
                snapshot = loaded.snapshot.kept_in(self.store)
                loaded = dataclasses.replace(loaded, snapshot=snapshot)
        except ManifestError as exc:
            self.add_manifest_error(pointer, ref, source, name, exc)
            return None
        return self.bind(loaded, pointer)

    def bind(self, loaded: LoadedHook, pointer: str) -> BoundHook:
        bound: dict[tuple[int, str], BoundPredicate] = {}
        for entry in loaded.manifest.events:
            reached = [tool for tool in self.tools if entry.reaches(tool.identity)]
            known = reached or any(map(entry.reaches, self.pending))
            if entry.match is not None and not known:
                text = f"events[{entry.index}].match {entry.match.pattern!r}"
                self.warnings.append(f"hook {loaded.identity!r}: {text} matches no selected tool")
            if entry.when is None:
                continue
            for tool in reached:
                try:
                    predicate = bind_subscription(loaded.identity, entry, tool)
                except PolicyError as exc:
                    hint = f"; {exc.hint}" if exc.hint else ""
                    text = f"events[{entry.index}].when for tool {tool.identity!r}: {exc.message}"
                    self.add(pointer, loaded.identity, text + hint)
                else:
                    bound[entry.index, tool.identity] = predicate
        return BoundHook(loaded.identity, loaded.manifest, loaded.snapshot, MappingProxyType(bound))

    def add(self, pointer: str, ref: str, message: str) -> None:
        self.problems.append(Problem(pointer, f"{ref!r}: {message}"))

    def add_manifest_error(
        self, pointer: str, ref: str, source: Source, name: str, exc: ManifestError
    ) -> None:
        if exc.code == "hook_not_found":
            self.add(pointer, ref, f"there is no such hook{self.near(source, name)}")
            return
        hint = f"; {exc.hint}" if exc.hint else ""
        for problem in exc.problems:
            self.add(pointer, ref, f"{exc.where}: {problem}{hint}")
        if not exc.problems:
            self.add(pointer, ref, f"{exc}{hint}")

    def near(self, source: Source, name: str) -> str:
        root = self.roots.path(source)
        for other in _SOURCES:
            if other != source and name in discover_hooks(self.roots.path(other)):
                return f" in {root}; there is '{other}/{name}'"
        known = discover_hooks(root)
        if not known:
            return f"; {root} has no hooks"
        return f" in {root}{did_you_mean(name, known) or '; it has ' + ', '.join(known[:10])}"


def load_hooks(
    config: Config,
    tools: Iterable[Tool],
    *,
    use: Sequence[str] | None = None,
    pending: Iterable[str] = (),
    store: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> HookSet:
    """Load every selected hook of the chosen agent and bind it. Runs none.

    Args:
        config: The configuration.
        tools: The selected tools.
        use: Selection IDs, instead of those that the agent selects.
        pending: Identities of selected tools that are not known yet, for want of their server;
            conditions are not checked against those.
        store: Where to materialise snapshots that are too big to keep in memory.
        environ: Instead of the process environment, for ``XDG_CONFIG_HOME``.

    Raises:
        ConfigError: ``hooks_invalid`` with every problem of every hook.
    """
    selected = config.agent.hooks_use if use is None else use
    if not selected:
        return HookSet()
    loader = _Loader(hook_roots(config, environ=environ), tuple(tools), store)
    loader.pending = tuple(pending)
    base = f"/agents/{escape_pointer(config.agent.name)}/hooks/use"
    found = [
        loader.load(ref, f"{base}/{index}" if use is None else "")
        for index, ref in enumerate(selected)
    ]
    problems = loader.problems
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise ConfigError(
            "hooks_invalid",
            f"{problems[0].message}{more}",
            where=None if config.path is None else str(config.path),
            problems=tuple(problems[:_MAX_PROBLEMS]),
        )
    return HookSet(tuple(hook for hook in found if hook is not None), tuple(loader.warnings))
