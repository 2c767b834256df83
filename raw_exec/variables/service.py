"""Who may have which value, and where it comes from this time.

Rules
1. What is selected by the agent decides, together with the variable's access. A handler's
   request is authorised by the call it came from; nothing in its frame can change that.
2. A variable is resolved by one run at a time; whoever wants it meanwhile shares the run.
   When the last waiter is cancelled the run is ended, and reaped before he goes on.
3. A success is kept for ``cache_ttl_ms`` on trio's clock, which is monotonic. A failure is
   never kept, a value never served after its time, and nothing is tried twice.
4. References are checked, all of them, before the first source is touched.

Security: values of ``use`` variables leave only through ``resolve_env``. ``redact`` replaces
those that are texts of at least four characters in words of the host. Not covered: a tool
that was given a value can print or return it, as it is or in another encoding.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from ..config import Config, VarConfig
from ..pool import Launcher, RequestRefused
from ..pool.calls import RequestHandler
from ..pool.nursery import open_service_nursery
from ..values import freeze
from .envrefs import check_refs, env_text
from .failures import VariableError
from .providers import SYSTEM_TIME, ask_provider
from .sources import check_type, format_time, read_env, read_file

__all__ = ["Resolved", "VariableService", "describe_variables", "open_variables"]

_MAX_PROVIDERS = 8
_KEPT_SECRETS = 8
_MIN_SECRET_CHARS = 4
_NEVER_SCALAR = ("object", "array", "null")


@dataclass(frozen=True, slots=True)
class Resolved:
    """One value.

    Args:
        value: JSON data, frozen. Security: may be a secret.
        observed_at: UTC, ISO 8601 with at most milliseconds.
        cached: It was resolved for an earlier call.
    """

    name: str
    value: Any = field(repr=False)
    observed_at: str
    cached: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data, as ``read_var`` answers."""
        return {
            "name": self.name,
            "value": self.value,
            "observed_at": self.observed_at,
            "cached": self.cached,
        }


@dataclass(slots=True, eq=False)
class _Run:
    """One resolution under way."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    done: trio.Event = field(default_factory=trio.Event)
    waiters: int = 0
    result: Resolved | None = None
    error: VariableError | None = None


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def describe_variables(config: Config) -> list[dict[str, Any]]:
    """Describe the variables that the chosen agent selects, in its order. Runs nothing.

    Returns:
        ``{name, description, type, access}`` each; ``type`` is ``json`` for any.
    """
    return [
        {
            "name": var.name,
            "description": var.description,
            "type": var.type or "json",
            "access": var.access,
        }
        for var in (config.vars[name] for name in config.agent.vars)
    ]


class VariableService:
    """The selected variables of one agent. Use ``open_variables``."""

    def __init__(
        self,
        config: Config,
        launcher: Launcher,
        nursery: trio.Nursery,
        *,
        environ: Mapping[str, str] | None = None,
        now: Callable[[], datetime.datetime] = _utc_now,
    ) -> None:
        self._config = config
        self._launcher = launcher
        self._nursery = nursery
        self._environ = os.environ if environ is None else environ
        self._now = now
        self._vars = {name: config.vars[name] for name in config.agent.vars}
        self._cache: dict[str, tuple[float, Resolved]] = {}
        self._runs: dict[str, _Run] = {}
        self._limiter = trio.CapacityLimiter(_MAX_PROVIDERS)
        self._secrets: dict[str, deque[str]] = {}
        self._closed = False

    # -- public ------------------------------------------------------------

    def describe(self) -> list[dict[str, Any]]:
        """Describe the selected variables; see ``describe_variables``."""
        return describe_variables(self._config)

    async def read(self, name: str) -> Resolved:
        """Resolve a variable that may be read.

        If cancelled while nobody else waits for it, its provider is ended and reaped.

        Raises:
            VariableError: ``not_selected``, ``access_denied``, or a failure of its source.
        """
        var = self._selected(name)
        if var.access != "read":
            raise VariableError(
                "access_denied",
                f"variable {name!r} may be referenced in env_refs and not read",
                variable=name,
            )
        return await self._resolve(var)

    def validate_env_refs(self, refs: object) -> None:
        """Check references from environment names to variables. Touches no source.

        Raises:
            VariableError: ``env_refs_invalid``, ``not_selected``, or ``not_scalar`` by the
                declared type.
        """
        for variable in check_refs(refs).values():
            var = self._selected(variable)
            if var.type in _NEVER_SCALAR:
                raise VariableError(
                    "not_scalar",
                    f"variable {variable!r} is declared as {var.type!r}, "
                    "so it can't be an environment variable",
                    variable=variable,
                )

    async def resolve_env(self, refs: object) -> dict[str, str]:
        """Resolve references to the texts of environment variables.

        Raises:
            VariableError: As ``validate_env_refs`` before anything is touched; then
                ``not_scalar``, ``contains_nul``, or a failure of a source.
        """
        self.validate_env_refs(refs)
        checked = check_refs(refs)
        texts: dict[str, str] = {}
        for variable in dict.fromkeys(checked.values()):
            resolved = await self._resolve(self._vars[variable])
            texts[variable] = env_text(variable, resolved.value)
        return {name: texts[variable] for name, variable in checked.items()}

    async def resolve_configured(self, refs: Mapping[str, str]) -> dict[str, str]:
        """Resolve references that the configuration itself makes; no agent has to select them.

        Args:
            refs: From names to configured variables.

        Raises:
            VariableError: ``not_scalar``, ``contains_nul``, or a failure of a source.
        """
        texts: dict[str, str] = {}
        for variable in dict.fromkeys(refs.values()):
            resolved = await self._resolve(self._config.vars[variable])
            texts[variable] = env_text(variable, resolved.value)
        return {name: texts[variable] for name, variable in refs.items()}

    def redact(self, data: Any) -> Any:
        """Return JSON data in whose texts the values of ``use`` variables are replaced."""
        if not self._secrets:
            return data
        secrets = {secret: name for name, kept in self._secrets.items() for secret in kept}
        longest_first = sorted(secrets, key=len, reverse=True)

        def clean(item: Any) -> Any:
            if isinstance(item, str):
                for secret in longest_first:
                    item = item.replace(secret, f"[redacted {secrets[secret]}]")
                return item
            if isinstance(item, Mapping):
                return {clean(key): clean(value) for key, value in item.items()}
            if isinstance(item, list | tuple):
                return type(item)(map(clean, item))
            return item

        return clean(data)

    def requests_for(self, identity: str) -> RequestHandler:
        """Return what answers the requests of one call.

        Args:
            identity: Policy identity of the tool, as the supervisor knows it.
        """

        async def answer(method: str, params: Any) -> Any:
            try:
                return await self._answer(method, params)
            except VariableError as exc:
                raise RequestRefused(exc.code, f"{exc.message} (asked by {identity})") from None

        return answer

    # -- requests of handlers ----------------------------------------------

    async def _answer(self, method: str, params: Any) -> Any:
        if method == "vars.list":
            _fields(method, params)
            return self.describe()
        if method == "vars.read":
            (name,) = _fields(method, params, "name")
            return (await self.read(name)).as_dict()
        if method == "vars.validate_env_refs":
            (refs,) = _fields(method, params, "refs")
            self.validate_env_refs(refs)
            return None
        if method == "vars.resolve_env":
            (refs,) = _fields(method, params, "refs")
            return await self.resolve_env(refs)
        raise RequestRefused("unsupported", f"there is no method {method!r:.80}")

    # -- resolving ---------------------------------------------------------

    def _selected(self, name: object) -> VarConfig:
        var = self._vars.get(name) if isinstance(name, str) else None
        if var is None:
            # The same words whether it exists or not: what exists is not the tool's to know.
            raise VariableError(
                "not_selected",
                f"variable {name!r:.80} is not selected for agent {self._config.agent.name!r}",
                variable=name if isinstance(name, str) else None,
                hint="list_vars names those that are",
            )
        return var

    async def _resolve(self, var: VarConfig) -> Resolved:
        if var.source.kind == "literal":
            await trio.lowlevel.checkpoint()
            return self._accept(var, var.source.value, None)
        kept = self._cache.get(var.name)
        if kept is not None and trio.current_time() < kept[0]:
            await trio.lowlevel.checkpoint()
            return dataclasses.replace(kept[1], cached=True)
        run = self._runs.get(var.name)
        if run is None:
            if self._closed:
                raise _aborted(var)
            run = self._runs[var.name] = _Run()
            self._nursery.start_soon(self._run, var, run)
        await self._wait(var, run)
        if run.result is None:
            raise (run.error or _aborted(var)).again()
        return run.result

    async def _wait(self, var: VarConfig, run: _Run) -> None:
        run.waiters += 1
        try:
            await run.done.wait()
        finally:
            run.waiters -= 1
            if not run.waiters and not run.done.is_set():
                self._forget(var, run)  # whoever comes now begins anew
                run.scope.cancel()
                with trio.CancelScope(shield=True):
                    await run.done.wait()

    def _forget(self, var: VarConfig, run: _Run) -> None:
        if self._runs.get(var.name) is run:
            del self._runs[var.name]

    async def _run(self, var: VarConfig, run: _Run) -> None:
        try:
            with run.scope:
                value, observed_at = await self._obtain(var)
                run.result = self._accept(var, value, observed_at)
                if var.cache_ttl_ms:
                    until = trio.current_time() + var.cache_ttl_ms / 1000
                    self._cache[var.name] = (until, run.result)
        except VariableError as exc:
            run.error = exc
        finally:
            self._forget(var, run)
            run.done.set()

    async def _obtain(self, var: VarConfig) -> tuple[Any, str | None]:
        source = var.source
        if source.kind == "env":
            return read_env(var, self._environ), None
        if source.kind == "file":
            directory = self._config.directory
            return await trio.to_thread.run_sync(read_file, var, directory), None
        if source.name == SYSTEM_TIME:
            return self._system_time(var)
        async with self._limiter:
            return await ask_provider(self._config, self._launcher, var, self._environ)

    def _system_time(self, var: VarConfig) -> tuple[Any, str | None]:
        if var.source.params:
            raise VariableError(
                "params_refused",
                f"variable {var.name!r}: provider {SYSTEM_TIME!r} takes no params",
                variable=var.name,
            )
        moment = format_time(self._now())
        return moment, moment

    def _accept(self, var: VarConfig, value: Any, observed_at: str | None) -> Resolved:
        check_type(var, value)
        if var.access == "use" and isinstance(value, str) and len(value) >= _MIN_SECRET_CHARS:
            kept = self._secrets.setdefault(var.name, deque(maxlen=_KEPT_SECRETS))
            if value not in kept:
                kept.append(value)
        return Resolved(var.name, freeze(value), observed_at or format_time(self._now()))

    def close(self) -> None:
        """Begin no more runs; forget every value."""
        self._closed = True
        self._cache.clear()


def _aborted(var: VarConfig) -> VariableError:
    message = f"variable {var.name!r} was given up before it had a value"
    return VariableError("aborted", message, variable=var.name)


def _fields(method: str, params: Any, *names: str) -> tuple[Any, ...]:
    if not isinstance(params, dict) or set(params) != set(names):
        wanted = ", ".join(names) or "none"
        raise VariableError("request_invalid", f"{method} takes these fields: {wanted}")
    return tuple(params[name] for name in names)


@asynccontextmanager
async def open_variables(
    config: Config,
    launcher: Launcher,
    *,
    environ: Mapping[str, str] | None = None,
    now: Callable[[], datetime.datetime] = _utc_now,
) -> AsyncIterator[VariableService]:
    """Open the variables of a configuration's agent. Starts nothing.

    On exit every provider is ended and reaped.

    Args:
        environ: For ``env`` sources and ``PATH``, instead of the process environment.
        now: The wall clock, for ``observed_at`` and ``system.time``.
    """
    async with open_service_nursery() as nursery:
        service = VariableService(config, launcher, nursery, environ=environ, now=now)
        try:
            yield service
        finally:
            service.close()
            nursery.cancel_scope.cancel()
