"""Everything a program needs to run tools, opened and closed in order."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .approval import Approver
from .config import Config
from .dispatch import Call, Services, ToolResult, dispatch_call, judge_call
from .dispatch.audit import AuditLog, audit_record
from .dispatch.descriptors import DescriptorService
from .errors import ConfigError
from .jobs import JobService, open_jobs
from .jobs.requests import METHOD_PREFIX, job_requests
from .limits import Limits
from .pool import (
    Launcher,
    NodeRuntime,
    PoolStatistics,
    WorkerPool,
    WorkerSpec,
    open_launcher,
    open_pool,
)
from .pool.calls import RequestHandler
from .private_root import open_private_root
from .sandbox import SandboxPlan, derive_plan, descriptor_plan
from .tools import Tool, ToolRegistry, load_registry
from .variables import VariableService, open_variables

__all__ = ["Runtime", "RuntimeStatistics", "RuntimeTools", "open_runtime"]


_JOB_TOOL = "builtin/process"
_MAX_SPECS = 4096
"""Tools times working directories that are remembered; more are worked out again."""


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """A snapshot for tests and operators.

    Args:
        pool: Workers and calls.
        calls_in_flight: Dispatches that have no outcome yet.
        launcher_pid: Process ID of the launcher, or ``None`` before the first worker.
        live_trees: Process trees the launcher has not reported dead.
    """

    pool: PoolStatistics
    calls_in_flight: int
    launcher_pid: int | None
    live_trees: int


class RuntimeTools:
    """The selected tools of a runtime: what a model is shown and what it may call."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def names(self) -> tuple[str, ...]:
        """Model-visible names in selection order, denied tools left out."""
        return self._runtime.loaded.names

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self._runtime.loaded.cache_key

    def definitions(self) -> list[dict[str, Any]]:
        """Return name, description and input schema of each visible tool."""
        return self._runtime.loaded.definitions()

    async def dispatch(
        self,
        name: str,
        arguments: Any,
        *,
        cwd: str | os.PathLike[str] | None = None,
        max_output_bytes: int | None = None,
        tool_call_id: str | None = None,
        source: str = "model",
        timeout_seconds: float | None = None,
    ) -> ToolResult:
        """Take one call through every step and return its one outcome.

        A refusal and a failure are outcomes, not exceptions. If cancelled, the handler sees
        its abort signal, gets the grace period, its process tree is killed and reaped, and
        ``trio.Cancelled`` goes on.

        Args:
            name: The model-visible name.
            arguments: JSON data; copied and frozen.
            cwd: Directory that relative paths mean; the runtime's by default.
            max_output_bytes: Budget of text and JSON; the agent's by default.
            tool_call_id: The call's ID; made up by default.
            source: ``"model"`` or ``"user_action"``.
            timeout_seconds: Wall time of the handler; at most, and by default, the
                configured limit.

        Raises:
            ConfigError: ``cwd`` is not a directory, or an option is out of range.
        """
        return await self._runtime.dispatch(
            name,
            arguments,
            cwd=cwd,
            max_output_bytes=max_output_bytes,
            tool_call_id=tool_call_id,
            source=source,
            timeout_seconds=timeout_seconds,
        )


class Runtime:
    """An open runtime. Use ``open_runtime``."""

    def __init__(
        self,
        config: Config,
        loaded: ToolRegistry,
        launcher: Launcher,
        pool: WorkerPool,
        variables: VariableService,
        jobs: JobService,
        *,
        cwd: str,
        approve: Approver | None,
        cache_dir: Path,
        principal: str,
        audit: AuditLog | None,
    ) -> None:
        self.config = config
        self.loaded = loaded
        self.registry = RuntimeTools(self)
        self.launcher = launcher
        self.pool = pool
        self.variables = variables
        self.jobs = jobs
        self._cwd = cwd
        self._principal = principal
        self._specs: dict[tuple[str, str], WorkerSpec] = {}
        self._in_flight = 0
        self._calls = 0
        self._call_prefix = f"call_{secrets.token_hex(8)}_"
        self._descriptor_plan = descriptor_plan(config.limits)
        self.descriptors = DescriptorService(
            pool,
            config.limits,
            lambda _tool: self._descriptor_plan,
            cache_dir=cache_dir,
            principal=principal,
        )
        self._services = Services(
            registry=loaded,
            pool=pool,
            descriptors=self.descriptors,
            spec_for=self.spec_for,
            approve=approve,
            limits=config.limits,
            record=None if audit is None else self._record,
            requests=self._requests_of,
            redact=variables.redact if config.agent.vars else None,
        )
        self._audit = audit

    def _requests_of(self, call: Call) -> RequestHandler:
        """Return what answers the requests of a call's handler, by which tool it is."""
        tool = call.chosen_tool()
        variables = self.variables.requests_for(tool.identity)
        if tool.identity != _JOB_TOOL:
            return variables
        jobs = job_requests(
            self.jobs,
            cwd=call.cwd,
            plan_for=lambda cwd: self.plan_for(tool, cwd),
            resolve_env=self.variables.resolve_env,
        )

        async def answer(method: str, params: Any) -> Any:
            return await (jobs if method.startswith(METHOD_PREFIX) else variables)(method, params)

        return answer

    def _record(self, call: Call, result: ToolResult) -> None:
        assert self._audit is not None  # noqa: S101  (only then is this registered)
        self._audit.write(audit_record(call, result, principal=self._principal))

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self.loaded.cache_key

    @property
    def limits(self) -> Limits:
        """The configured limits."""
        return self.config.limits

    def plan_for(self, tool: Tool, cwd: str) -> SandboxPlan:
        """Derive the sandbox plan of a tool for an absolute working directory.

        Raises:
            SandboxError: The profile grants something that can't be granted.
        """
        return derive_plan(
            self.config.sandbox,
            tool_identity=tool.identity,
            profile=tool.profile,
            cwd=cwd,
            config_directory=str(self.config.directory),
            home=str(Path.home()),
            limits=self.config.limits,
        )

    def spec_for(self, tool: Tool, cwd: str) -> WorkerSpec:
        """Say what worker a tool needs for a working directory; worked out once."""
        known = self._specs.get((tool.identity, cwd))
        if known is not None:
            return known
        plan = self.plan_for(tool, cwd)
        spec = WorkerSpec(
            label=tool.identity,
            language=tool.language,
            kind="handler",
            entry=tool.manifest.entry.removeprefix("./"),
            snapshot=tool.snapshot,
            plan=plan,
            principal=self._principal,
            # A relative path means the same with and without context.cwd, where granted.
            cwd=cwd if _may_enter(plan, cwd) else None,
        )
        if len(self._specs) >= _MAX_SPECS:
            self._specs.clear()
        self._specs[tool.identity, cwd] = spec
        return spec

    async def dispatch(
        self,
        name: str,
        arguments: Any,
        *,
        cwd: str | os.PathLike[str] | None = None,
        max_output_bytes: int | None = None,
        tool_call_id: str | None = None,
        source: str = "model",
        timeout_seconds: float | None = None,
    ) -> ToolResult:
        """See ``RuntimeTools.dispatch``."""
        call = self._new_call(
            name, arguments, cwd, max_output_bytes, tool_call_id, source, timeout_seconds
        )
        self._in_flight += 1
        try:
            return await dispatch_call(call, self._services)
        finally:
            self._in_flight -= 1

    async def judge(
        self, name: str, arguments: Any, *, cwd: str | os.PathLike[str] | None = None
    ) -> Call:
        """Find out what would happen to a call, without hooks, approval and handler.

        Returns:
            The call with its effects and the evaluation of the rules.

        Raises:
            CallRefused: It would be refused before that.
        """
        call = self._new_call(name, arguments, cwd, None, "judge", "model", None)
        await judge_call(call, self._services)
        return call

    def _next_call_id(self) -> str:
        self._calls += 1
        return f"{self._call_prefix}{self._calls:x}"

    def _new_call(
        self,
        name: str,
        arguments: Any,
        cwd: str | os.PathLike[str] | None,
        max_output_bytes: int | None,
        tool_call_id: str | None,
        source: str,
        timeout_seconds: float | None,
    ) -> Call:
        return Call(
            name=name,
            raw_arguments=arguments,
            cwd=self._cwd if cwd is None else resolve_cwd(cwd),
            max_output_bytes=_output_budget(max_output_bytes, self.config.agent.max_output_bytes),
            tool_call_id=tool_call_id or self._next_call_id(),
            source=_source(source),
            call_ms=_call_ms(timeout_seconds, self.config.limits.call_ms),
        )

    def statistics(self) -> RuntimeStatistics:
        """Return counts as of now."""
        return RuntimeStatistics(
            pool=self.pool.statistics(),
            calls_in_flight=self._in_flight,
            launcher_pid=self.launcher.pid,
            live_trees=self.launcher.live_children,
        )


@asynccontextmanager
async def open_runtime(
    config: Config,
    *,
    cwd: str | os.PathLike[str],
    approve: Approver | None = None,
    principal: str = "default",
    node: str | NodeRuntime | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    spares: int = 1,
    audit: str | os.PathLike[str] | AuditLog | None = None,
    simulate: Sequence[str] = (),
) -> AsyncIterator[Runtime]:
    """Open a runtime for the selected tools of a configuration.

    On exit every worker is dead and reaped and every private file is removed. Nothing is
    started before the first call that needs it.

    Args:
        config: From ``load_config``.
        cwd: Directory that relative paths of tools mean.
        approve: Called with one ``ApprovalRequest`` when a rule says ``ask``; ``None``
            refuses such calls with ``approval_required``.
        principal: On whose behalf; workers and instances are never shared between two.
        node: Node executable; found by itself by default.
        cache_dir: Where the compiled engine is kept; ``$XDG_CACHE_HOME/raw`` by default.
        spares: Started, unused workers kept per tool with ``isolation: fresh``.
        audit: File that a record of every call is appended to; none by default.
        simulate: Features to treat as missing, for tests: ``"no-landlock"``,
            ``"no-userns"``, ``"no-cgroup"``.

    Raises:
        ConfigError: ``cwd`` is not a directory, or a selected tool can't be loaded.
        ManifestError: A selected tool is wrong.
        PolicyError: A rule does not fit the tool it matches.
    """
    _refuse_unsupported(config)
    directory = resolve_cwd(cwd)
    cache = Path(cache_dir) if cache_dir is not None else _default_cache()
    log = audit if audit is None or isinstance(audit, AuditLog) else AuditLog(audit)
    with open_private_root() as root, _closing(log, owned=log is not audit):
        store = root / "snapshots"
        loaded = load_registry(config, store=store)
        async with (
            open_launcher(scratch_parent=root, simulate=simulate) as launcher,
            open_pool(
                launcher,
                config.limits,
                snapshot_store=store,
                node=node,
                spares=spares,
                cache_dir=cache,
            ) as pool,
            open_variables(config, launcher) as variables,
            open_jobs(launcher, grace_ms=config.limits.grace_ms) as jobs,
        ):
            runtime = Runtime(
                config,
                loaded,
                launcher,
                pool,
                variables,
                jobs,
                cwd=directory,
                approve=approve,
                cache_dir=cache / "engine",
                principal=principal,
                audit=log,
            )
            try:
                yield runtime
            finally:
                runtime.descriptors.close()


@contextmanager
def _closing(log: AuditLog | None, *, owned: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if log is not None and owned:
            log.close()


def _refuse_unsupported(config: Config) -> None:
    """Refuse what would otherwise be protection that is asked for and silently absent."""
    if config.agent.hooks_use:
        raise ConfigError(
            "not_supported",
            f"agent {config.agent.name!r} selects hooks, which this version can't run",
            where=None if config.path is None else str(config.path),
            hint="remove hooks.use; a gate that does not run would let calls through",
        )


def _may_enter(plan: SandboxPlan, cwd: str) -> bool:
    if not plan.sandbox:
        return True
    return any(cwd == path or cwd.startswith(f"{path.rstrip('/')}/") for path in plan.read)


def resolve_cwd(cwd: str | os.PathLike[str]) -> str:
    """Return an existing directory as an absolute path without links.

    Raises:
        ConfigError: Code ``cwd_invalid``.
    """
    path = os.path.realpath(os.fspath(cwd))
    if not os.path.isdir(path):
        raise ConfigError("cwd_invalid", f"working directory {path!r} is not a directory")
    return path


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "raw"


def _output_budget(asked: int | None, configured: int) -> int:
    if asked is None:
        return configured
    if not 0 < asked <= 16 * 1024 * 1024:
        raise ConfigError("option_invalid", f"max_output_bytes must be 1 to 16777216, got {asked}")
    return asked


def _source(source: str) -> str:
    if source not in ("model", "user_action"):
        raise ConfigError("option_invalid", f"source must be 'model' or 'user_action': {source!r}")
    return source


def _call_ms(asked: float | None, configured: int) -> int:
    if asked is None:
        return configured
    if not asked > 0:
        raise ConfigError("option_invalid", f"timeout_seconds must be over 0, got {asked}")
    return min(configured, max(1, int(asked * 1000)))
