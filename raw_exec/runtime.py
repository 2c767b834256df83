"""Everything a program needs to run tools, opened and closed in order."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from .approval import Approver
from .config import Config
from .dispatch import Call, Services, ToolResult, dispatch_call, judge_call
from .dispatch.audit import AuditLog, audit_record, open_audit
from .dispatch.descriptors import DescriptorService
from .dispatch.options import call_ms, call_source, output_budget, resolve_cwd
from .effects.compiled import default_cache_dir
from .hooks import HookService, load_hooks
from .interactions import FAILURES, Adapter
from .interactions import requests as question_requests
from .jobs import JobService, open_jobs
from .jobs.requests import METHOD_PREFIX as JOB_PREFIX
from .jobs.requests import job_requests
from .limits import Limits
from .mcp_client import McpService, open_servers
from .panels import PanelView
from .panels import requests as panel_requests
from .pool import (
    Launcher,
    NodeRuntime,
    WorkerPool,
    WorkerSpec,
    open_launcher,
    open_pool,
)
from .pool.calls import RequestHandler, RequestRefused
from .pool.statistics import RuntimeStatistics
from .private_root import open_private_root
from .profiles import ProjectedTools, profile_named, project_tools
from .sandbox import SandboxPlan, descriptor_plan, explain_path
from .sessions import Session, SessionKeeper, open_keeper, open_session
from .tools import Tool, ToolRegistry, derive_tool_plan, load_registry
from .transactions import recover_at_start
from .variables import VariableService, open_variables

__all__ = ["Runtime", "RuntimeStatistics", "RuntimeTools", "open_runtime"]

_log = logging.getLogger(__name__)

_JOB_TOOL = "builtin/process"
_MAX_SPECS = 4096
"""Tools times working directories that are remembered; more are worked out again."""


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

    def definitions(self, profile: str | None = None) -> list[dict[str, Any]]:
        """Return name, description and input schema of each visible tool.

        Args:
            profile: A provider, for example ``"anthropic"``: returns what to send to it as
                ``tools``. A tool that it can't be told of is left out, with a warning in the
                log; ``projected`` says which and why.

        Raises:
            ConfigError: ``unknown_profile``.
        """
        if profile is None:
            return self._runtime.loaded.definitions()
        projected = self.projected(profile)
        for withheld in projected.withheld:
            _log.warning("withheld from %s: %s", profile, withheld)
        return projected.definitions

    def projected(self, profile: str) -> ProjectedTools:
        """Return the visible tools as a provider is told of them, and those it can't be.

        Raises:
            ConfigError: ``unknown_profile``.
        """
        return project_tools(self._runtime.loaded.tools, profile_named(profile))

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
        dry_run: bool = False,
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
            dry_run: Run the handler on a copy-on-write view and commit nothing; the outcome
                has ``changes`` and a ``diff``.

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
            dry_run=dry_run,
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
        hooks: HookService,
        servers: McpService,
        *,
        cwd: str,
        approve: Approver | None,
        cache_dir: Path,
        principal: str,
        audit: AuditLog | None,
        keeper: SessionKeeper,
    ) -> None:
        self.config = config
        self.loaded = loaded
        self.registry = RuntimeTools(self)
        self.launcher = launcher
        self.pool = pool
        self.variables = variables
        self.jobs = jobs
        self.hooks = hooks
        self.servers = servers
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
            pre_hooks=hooks.pre_tool if hooks.wants("PreToolUse") else None,
            post_hooks=hooks.post_tool if _tells_of_results(hooks) else None,
            requests=self._requests_of,
            redact=variables.redact if config.agent.vars or config.mcp else None,
            servers=servers,
        )
        self._audit = audit
        self._keeper = keeper

    def open_session(
        self,
        session_id: str | None = None,
        *,
        resume: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        on_panel: Callable[[PanelView], Awaitable[None]] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Open a session: a home for panels, questions, background processes and receipts.

        Args:
            session_id: Its name in the history; made up by default.
            resume: Take up the session of that name where an earlier host left it, if any.
            cwd: Directory that relative paths of its calls mean; the runtime's by default.
            on_panel: Called with a panel as it changes, at most once in 250 ms for each
                panel; the last state is always among them.

        Raises:
            HistoryError: The history can't be used, or has such a session already.
            ConfigError: ``cwd`` is not a directory.
        """
        directory = self._cwd if cwd is None else resolve_cwd(cwd)
        return open_session(
            self, self._keeper, session_id, resume=resume, cwd=directory, on_panel=on_panel
        )

    @property
    def principal(self) -> str:
        """On whose behalf this runtime works."""
        return self._principal

    def _requests_of(self, call: Call) -> RequestHandler:
        """Return what answers the requests of a call's handler, by which tool it is."""
        tool = call.chosen_tool()
        variables = self.variables.requests_for(tool.identity)

        async def answer(method: str, params: Any) -> Any:
            if method.startswith(panel_requests.METHOD_PREFIX):
                return await panel_requests.answer_panel_request(call.panels, method, params)
            if method == question_requests.METHOD:
                return await self._ask(call, params)
            if method.startswith(JOB_PREFIX) and tool.identity == _JOB_TOOL:
                if call.dry_run:
                    raise RequestRefused("process_unavailable", "a dry run keeps no process")
                return await self._jobs_of(call, tool)(method, params)
            return await variables(method, params)

        return answer

    def _jobs_of(self, call: Call, tool: Tool) -> RequestHandler:
        return job_requests(
            self.jobs if call.home is None else call.home.jobs,
            cwd=call.cwd,
            plan_for=lambda cwd: self.plan_for(tool, cwd),
            resolve_env=self.variables.resolve_env,
        )

    async def _ask(self, call: Call, params: Any) -> Any:
        try:
            if call.home is None:
                code = "interaction_unavailable"
                raise RequestRefused(code, f"{FAILURES[code]}; the call belongs to no session")
            return await call.home.ask(call, params)
        except RequestRefused as exc:
            # The tool may say what it likes of it; this is ours.
            call.detail["unanswered"] = exc.code
            raise

    def _record(self, call: Call, result: ToolResult) -> None:
        assert self._audit is not None  # noqa: S101  (only then is this registered)
        self._audit.write(audit_record(call, result, principal=self._principal))

    @property
    def cache_key(self) -> str:
        """Digest over the model-visible definitions and the sources of the selected tools."""
        return self.loaded.cache_key

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the operator should know: of configuration, tools and running servers."""
        return (*self.config.warnings, *self.loaded.warnings, *self.servers.warnings())

    @property
    def limits(self) -> Limits:
        """The configured limits."""
        return self.config.limits

    def plan_for(self, tool: Tool, cwd: str) -> SandboxPlan:
        """Derive the sandbox plan of a tool for an absolute working directory.

        Raises:
            SandboxError: The profile grants something that can't be granted.
        """
        return derive_tool_plan(self.config, tool, cwd)

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
            cwd=cwd if explain_path(plan, cwd).read else None,
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
        dry_run: bool = False,
    ) -> ToolResult:
        """See ``RuntimeTools.dispatch``."""
        call = self.new_call(
            name, arguments, cwd, max_output_bytes, tool_call_id, source, timeout_seconds
        )
        call.dry_run = dry_run
        return await self.run_call(call)

    async def run_call(self, call: Call) -> ToolResult:
        """Take a call that ``new_call`` made through every step."""
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
        call = self.new_call(name, arguments, cwd, None, "judge", "model", None)
        await judge_call(call, self._services)
        return call

    def _next_call_id(self) -> str:
        self._calls += 1
        return f"{self._call_prefix}{self._calls:x}"

    def new_call(
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
            max_output_bytes=output_budget(max_output_bytes, self.config.agent.max_output_bytes),
            tool_call_id=tool_call_id or self._next_call_id(),
            source=call_source(source),
            call_ms=call_ms(timeout_seconds, self.config.limits.call_ms),
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
    history: str | os.PathLike[str] | None = None,
    interact: Adapter | None = None,
    simulate: Sequence[str] = (),
) -> AsyncIterator[Runtime]:
    """Open a runtime for the selected tools of a configuration.

    On exit every worker is dead and reaped and every private file is removed. Only the MCP
    servers of selected tools are started now; one that fails has its tools withheld, which
    ``runtime.warnings`` says. Everything else is started by the first call that needs it.

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
        history: SQLite file that sessions are kept in; in memory by default.
        interact: Brings the questions of tools to a person; ``None`` refuses them with
            ``interaction_unavailable``.
        simulate: Features to treat as missing, for tests: ``"no-landlock"``,
            ``"no-userns"``, ``"no-cgroup"``.

    Raises:
        ConfigError: ``cwd`` is not a directory, or a selected tool can't be loaded.
        ConfigError: A selected hook is wrong, or its condition does not fit a tool.
        ManifestError: A selected tool is wrong.
        PolicyError: A rule does not fit the tool it matches.
        HistoryError: ``history`` can't be used.
    """
    directory = resolve_cwd(cwd)
    await recover_at_start()
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir().parent
    with open_audit(audit) as log, open_private_root() as root:
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
            open_keeper(history, interact) as keeper,
            open_servers(
                config, launcher, variables, cwd=directory, elicits=interact is not None
            ) as servers,
        ):
            loaded = await servers.select(loaded)
            hook_set = load_hooks(config, loaded.tools, store=store)
            runtime = Runtime(
                config,
                loaded,
                launcher,
                pool,
                variables,
                jobs,
                HookService(config, hook_set, launcher, store=store, cwd=directory),
                servers,
                cwd=directory,
                approve=approve,
                cache_dir=cache / "engine",
                principal=principal,
                audit=log,
                keeper=keeper,
            )
            try:
                yield runtime
            finally:
                runtime.descriptors.close()


def _tells_of_results(hooks: HookService) -> bool:
    return hooks.wants("PostToolUse") or hooks.wants("PostToolUseFailure")
