"""Runs a tool's ``validateArgs`` and ``describeEffects`` where they can do no harm.

Those of this package's own tools are plain Python, trusted, and run in process. ESM
descriptors run in the wasm engine, in process and bounded. What that engine can't
load, and the descriptors of Python tools, run in a descriptor worker: a sandboxed process
without writes, network or spawn, ended at the deadline.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from ..builtin import BUILTIN_DESCRIPTORS, BuiltinDescriptor
from ..effects import DescriptorFailed, DescriptorModule, EngineUnsupported, WasmEngine
from ..errors import (
    CallRefused,
    ManifestError,
    RemoteWireError,
    SandboxError,
    WorkerBroken,
    WorkerError,
)
from ..limits import Limits
from ..pool import LoadFailure, WorkerPool, WorkerSpec
from ..sandbox import SandboxPlan
from ..tools import Tool
from ..wire import WorkerFailure

__all__ = ["DescriptorService"]

_MENTIONS = re.compile(
    rb"validateArgs|describeEffects|validate_args|describe_effects|export\s*\*|\\u"
)
_INLINE_MS = 8
"""A descriptor call may hold the event loop for this long; a slower one moves to a thread."""
_SLOW_STRIKES = 3
_SLOW_CALLS = 200
"""After that many overruns in a row, that many calls go straight to a thread. One overrun
proves little: the machine may have been busy with something else."""
_MODULES_PER_TOOL = 4


class _ToolDescriptors:
    """What is known about one tool's descriptors."""

    def __init__(self) -> None:
        self.exports: frozenset[str] | None = None
        self.fallback: str | None = None
        self.strikes = 0
        self.threaded_calls = 0
        self.modules: list[DescriptorModule] = []
        self.idle: list[DescriptorModule] = []
        self.lock = trio.Lock()
        self.room = trio.CapacityLimiter(_MODULES_PER_TOOL)


class DescriptorService:
    """Answers ``validate`` and ``effects`` for every tool of a runtime.

    Args:
        pool: For descriptor workers.
        limits: ``descriptor_ms`` bounds each call, ``load_ms`` each import.
        plan_for: Derives the read-only plan of a descriptor worker.
        cache_dir: Where the compiled engine is kept, owner-only.
        principal: On whose behalf; instances are never shared between principals.
    """

    def __init__(
        self,
        pool: WorkerPool,
        limits: Limits,
        plan_for: Callable[[Tool], SandboxPlan],
        *,
        cache_dir: Path | None,
        principal: str,
    ) -> None:
        self._pool = pool
        self._limits = limits
        self._plan_for = plan_for
        self._cache_dir = cache_dir
        self._principal = principal
        self._engine: WasmEngine | None = None
        self._engine_lock = threading.Lock()
        self._tools: dict[str, _ToolDescriptors] = {}

    async def validate(self, tool: Tool, arguments: Any, cwd: str) -> str | None:
        """Return the error text of ``validateArgs``, or ``None``.

        Raises:
            CallRefused: Code ``effects_failed``, stage ``validate_args``.
        """
        builtin = _builtin(tool)
        if builtin is not None:
            return None if builtin.validate_args is None else builtin.validate_args(arguments)
        known = await self._known(tool, "validate_args")
        if known is None or (known.exports is not None and "validateArgs" not in known.exports):
            return None
        value = await self._run(tool, known, "validateArgs", arguments, cwd, "validate_args")
        if value is None or isinstance(value, str):
            return value
        raise _refused(
            tool, "validate_args", "bad_result", "validateArgs must return a string or undefined"
        )

    async def effects(self, tool: Tool, arguments: Any, cwd: str) -> Any:
        """Return what ``describeEffects`` returned, unchecked.

        Raises:
            CallRefused: Code ``effects_failed``, stage ``effects``.
        """
        builtin = _builtin(tool)
        if builtin is not None and builtin.describe_effects is not None:
            try:
                return builtin.describe_effects(arguments, cwd=cwd)
            except ValueError as exc:
                raise _refused(tool, "effects", "threw", str(exc)) from exc
        known = await self._known(tool, "effects")
        if known is None or (known.exports is not None and "describeEffects" not in known.exports):
            raise _refused(
                tool,
                "effects",
                "missing",
                "it declares effects_schema but exports no describeEffects",
            )
        return await self._run(tool, known, "describeEffects", arguments, cwd, "effects")

    async def inspect(self, tool: Tool) -> dict[str, Any]:
        """Load the descriptors without calling them; for ``raw tools check``.

        Returns:
            ``exports`` (or ``None`` when a descriptor worker must tell), ``engine``
            (``"none"``, ``"host"``, ``"wasm"`` or ``"worker"``) and the ``reason`` of a fallback.
        """
        builtin = _builtin(tool)
        if builtin is not None:
            names = {
                "validateArgs": builtin.validate_args,
                "describeEffects": builtin.describe_effects,
            }
            present = [name for name, function in names.items() if function is not None]
            return {"engine": "host", "exports": sorted(present), "reason": None}
        known = await self._known(tool, "validate_args")
        if known is None:
            return {"engine": "none", "exports": [], "reason": None}
        if known.fallback is not None:
            spec = self._spec(tool)
            async with self._pool.lease(spec) as lease:
                exports = lease.worker.loaded_exports
            return {"engine": "worker", "exports": sorted(exports), "reason": known.fallback}
        return {"engine": "wasm", "exports": sorted(known.exports or ()), "reason": None}

    def close(self) -> None:
        """Drop every instance and the engine."""
        for known in self._tools.values():
            for module in known.modules:
                module.close()
        self._tools.clear()
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    # -- internals ---------------------------------------------------------

    async def _known(self, tool: Tool, stage: str) -> _ToolDescriptors | None:
        """Load a tool's descriptors once; ``None`` when it can't have any."""
        known = self._tools.get(tool.snapshot.digest)
        if known is None:
            known = self._tools.setdefault(tool.snapshot.digest, _ToolDescriptors())
        if known.exports is not None or known.fallback is not None:
            return known if known.exports or known.fallback is not None else None
        async with known.lock:
            if known.exports is None and known.fallback is None:
                await self._load(tool, known, stage)
        return known if known.exports or known.fallback is not None else None

    async def _load(self, tool: Tool, known: _ToolDescriptors, stage: str) -> None:
        entry = tool.manifest.entry.removeprefix("./")
        try:
            source = tool.snapshot.read(entry)
        except ManifestError as exc:
            raise _refused(tool, stage, exc.code, str(exc)) from exc
        if not _MENTIONS.search(source):
            known.exports = frozenset()
            return
        if tool.language != "esm":
            known.fallback = "Python descriptors run in a descriptor worker"
            return
        try:
            module = await trio.to_thread.run_sync(self._new_module, tool)
        except EngineUnsupported as exc:
            known.fallback = exc.message
            return
        except ManifestError as exc:
            raise _refused(tool, stage, exc.code, str(exc)) from exc
        except DescriptorFailed as exc:
            raise _refused(
                tool, stage, exc.code, f"its module failed to load: {exc.message}"
            ) from exc
        known.exports = module.exports & {"validateArgs", "describeEffects"}
        known.modules.append(module)
        known.idle.append(module)

    def _new_module(self, tool: Tool) -> DescriptorModule:
        with self._engine_lock:
            if self._engine is None:
                self._engine = WasmEngine.open(cache_dir=self._cache_dir)
        entry = tool.manifest.entry.removeprefix("./")
        return self._engine.load(
            tool.snapshot.files_for_engine(),
            entry,
            deadline_ms=self._limits.descriptor_ms,
            load_ms=self._limits.load_ms,
        )

    async def _run(
        self,
        tool: Tool,
        known: _ToolDescriptors,
        fn: str,
        arguments: Any,
        cwd: str,
        stage: str,
    ) -> Any:
        if known.fallback is not None:
            return await self._run_in_worker(tool, fn, arguments, cwd, stage)
        async with known.room:
            try:
                module = known.idle.pop() if known.idle else await _fork(known)
                try:
                    return await self._run_in_engine(known, module, fn, arguments, cwd)
                finally:
                    known.idle.append(module)
            except DescriptorFailed as exc:
                raise _refused(tool, stage, exc.code, exc.message) from exc

    async def _run_in_engine(
        self, known: _ToolDescriptors, module: DescriptorModule, fn: str, arguments: Any, cwd: str
    ) -> Any:
        def run(deadline_ms: int) -> Any:
            if fn == "validateArgs":
                return module.validate_args(arguments, deadline_ms=deadline_ms)
            return module.describe_effects(arguments, cwd=cwd, deadline_ms=deadline_ms)

        limit = self._limits.descriptor_ms
        if known.threaded_calls > 0:
            known.threaded_calls -= 1
            return await trio.to_thread.run_sync(run, limit)
        # A descriptor is a function of its arguments, so it may be run twice.
        try:
            value = run(min(_INLINE_MS, limit))
        except DescriptorFailed as exc:
            if exc.code != "deadline" or limit <= _INLINE_MS:
                raise
            known.strikes += 1
            if known.strikes >= _SLOW_STRIKES:
                known.strikes, known.threaded_calls = 0, _SLOW_CALLS
            return await trio.to_thread.run_sync(run, limit)
        known.strikes = 0
        return value

    def _spec(self, tool: Tool) -> WorkerSpec:
        return WorkerSpec(
            label=tool.identity,
            language=tool.language,
            kind="descriptor",
            entry=tool.manifest.entry.removeprefix("./"),
            snapshot=tool.snapshot,
            plan=self._plan_for(tool),
            principal=self._principal,
        )

    async def _run_in_worker(
        self, tool: Tool, fn: str, arguments: Any, cwd: str, stage: str
    ) -> Any:
        try:
            async with self._pool.lease(self._spec(tool)) as lease:
                if fn not in lease.worker.loaded_exports:
                    if fn == "validateArgs":
                        return None
                    raise _refused(tool, stage, "missing", f"it exports no {fn}")
                value = await lease.worker.describe(fn, arguments, cwd, self._limits.descriptor_ms)
        except LoadFailure as exc:
            raise _refused(
                tool, stage, "load", f"its module failed to load: {exc.message}"
            ) from exc
        except SandboxError as exc:
            raise CallRefused(
                exc.code,
                exc.message,
                stage=stage,
                detail={"step": exc.step, "errno": exc.errno},
                hint=exc.hint,
            ) from exc
        except (WorkerBroken, RemoteWireError) as exc:
            raise _refused(tool, stage, exc.code, f"{fn}: {exc.message}") from exc
        except WorkerError as exc:
            raise CallRefused(
                "runtime_unavailable", exc.message, stage=stage, hint=exc.hint
            ) from exc
        if isinstance(value, WorkerFailure):
            raise _refused(tool, stage, value.kind, f"{fn}: {value.name}: {value.message}")
        return value


async def _fork(known: _ToolDescriptors) -> DescriptorModule:
    module = await trio.to_thread.run_sync(known.modules[0].fork)
    known.modules.append(module)
    return module


def _builtin(tool: Tool) -> BuiltinDescriptor | None:
    """Return the trusted descriptors of a tool of this package."""
    return BUILTIN_DESCRIPTORS.get(tool.manifest.id) if tool.source == "builtin" else None


def _refused(tool: Tool, stage: str, kind: str, message: str) -> CallRefused:
    return CallRefused(
        "effects_failed",
        f"{tool.identity} can't be judged before it runs: {message}",
        stage=stage,
        detail={"kind": kind},
    )
