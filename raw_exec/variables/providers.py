"""Provider protocol 1: an executable that is asked once and answers with one value.

It reads one JSON line, ``{"protocol_version":1,"name":...,"params":...}``, where ``name`` is
the provider's; prints exactly one object ``{"value":..., "observed_at"?:...}`` and exits with
0. Anything else is a failure of a class of its own; nothing is tried twice.

Sandbox: by default a provider may read the configuration's folder and its working directory,
writes nothing but its private scratch, has no network and starts no other program. An entry
``provider/<name>`` (or a glob that begins so) in ``sandbox.tools`` gives it another profile;
no other glob does, so a profile for tools never widens a provider. What it prints on standard
error is counted and dropped: it may hold a secret.

Not covered: a provider can read the configuration file itself, other variables included.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from ..config import Config, ProviderConfig, VarConfig
from ..errors import SandboxError, WorkerError
from ..jsontext import JsonTextError, parse
from ..pool import Launcher
from ..pool.oneshot import ProgramOutcome, ProgramUnavailable, find_program, run_program
from ..sandbox import SandboxPlan, derive_plan
from .failures import VariableError
from .sources import decode

__all__ = ["MAX_REQUEST_BYTES", "SYSTEM_TIME", "ask_provider", "provider_plan"]

PROTOCOL_VERSION: Final = 1
SYSTEM_TIME: Final = "system.time"
MAX_REQUEST_BYTES: Final = 65536
_SCRATCH_BYTES = 1024 * 1024
_OBSERVED_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z")


def provider_plan(config: Config, provider: ProviderConfig) -> SandboxPlan:
    """Derive what a provider may do.

    Raises:
        SandboxError: The profile that the configuration gives it can't be granted.
    """
    folder, cwd = str(config.directory), provider_cwd(config, provider)
    profile = config.sandbox.configured(f"provider/{provider.name}", prefix="provider/")
    if profile is None:
        return SandboxPlan(
            profile="provider",
            read=tuple(sorted({folder, cwd})),
            write=(),
            network="none",
            processes=False,
            tier="baseline",
            isolation="fresh",
            effects="declared",
            sandbox=True,
            memory_bytes=config.limits.memory_bytes,
            scratch_bytes=min(config.limits.scratch_bytes, _SCRATCH_BYTES),
        )
    plan = derive_plan(
        config.sandbox,
        tool_identity=f"provider/{provider.name}",
        profile=profile,
        cwd=cwd,
        config_directory=folder,
        home=str(Path.home()),
        limits=config.limits,
    )
    return dataclasses.replace(plan, read=tuple(sorted({*plan.read, folder, cwd})))


def provider_cwd(config: Config, provider: ProviderConfig) -> str:
    """Return the absolute directory that a provider starts in."""
    return os.path.abspath(config.directory / (provider.cwd or "."))


async def ask_provider(
    config: Config, launcher: Launcher, var: VarConfig, environ: Mapping[str, str]
) -> tuple[Any, str | None]:
    """Run a variable's provider once.

    Returns:
        The value, and when the provider says that it observed it.

    Raises:
        VariableError: See ``FAILURE_CLASSES``.
    """
    provider = config.var_providers[var.source.name or ""]
    request = {
        "protocol_version": PROTOCOL_VERSION,
        "name": provider.name,
        "params": var.source.params,
    }
    line = json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"
    if len(line) > MAX_REQUEST_BYTES:
        raise _failed(
            var, "request_too_large", f"was to be sent {len(line)} bytes; 65536 are allowed"
        )
    outcome = await _run(config, launcher, var, provider, line, environ)
    _check_end(var, provider, outcome)
    return _parse_answer(var, outcome.stdout)


async def _run(
    config: Config,
    launcher: Launcher,
    var: VarConfig,
    provider: ProviderConfig,
    line: bytes,
    environ: Mapping[str, str],
) -> ProgramOutcome:
    try:
        program = await trio.to_thread.run_sync(
            lambda: find_program(
                provider.command, provider.args, directory=config.directory, environ=environ
            )
        )
        return await run_program(
            launcher,
            argv=program.argv,
            env=program.env,
            cwd=provider_cwd(config, provider),
            plan=provider_plan(config, provider),
            files=program.files,
            stdin=line,
            timeout_ms=provider.timeout_ms,
            max_output_bytes=provider.max_output_bytes,
            grace_ms=config.limits.grace_ms,
        )
    except ProgramUnavailable as exc:
        raise _failed(var, exc.code, f"can't be started: {exc.message}", exc.hint) from None
    except SandboxError as exc:
        raise _failed(var, "sandbox_unavailable", f"was not run: {exc.message}", exc.hint) from None
    except WorkerError as exc:
        raise _failed(var, "launcher_lost", f"was not run: {exc.message}") from None
    except OSError as exc:
        raise _failed(var, "program_refused", f"was not run: {exc.strerror}") from None


def _check_end(var: VarConfig, provider: ProviderConfig, outcome: ProgramOutcome) -> None:
    if outcome.timed_out:
        raise _failed(var, "timeout", f"was still running after {provider.timeout_ms} ms")
    if outcome.overflowed:
        raise _failed(
            var, "output_limit", f"printed more than {provider.max_output_bytes} bytes in all"
        )
    if outcome.signal is not None:
        raise _failed(var, "killed", f"was ended by signal {outcome.signal}")
    if outcome.code is None:
        raise _failed(var, "launcher_lost", "was lost when the launcher died")
    if outcome.code != 0:
        raise _failed(var, "nonzero_exit", f"exited with status {outcome.code}")


def _parse_answer(var: VarConfig, data: bytes) -> tuple[Any, str | None]:
    text = decode(var, data, f"the answer of provider {var.source.name!r}")
    if not text.strip(" \t\r\n"):
        raise _failed(var, "no_output", "printed nothing")
    try:
        answer = parse(text, max_bytes=len(data))
    except JsonTextError:
        # Security: the parser's message may quote what was printed.
        if _has_more(text):
            raise _failed(var, "extra_output", "printed more than one JSON value") from None
        raise _failed(var, "invalid_json", "printed something that is not strict JSON") from None
    if not isinstance(answer, dict):
        raise _failed(var, "not_an_object", "printed JSON that is not an object")
    if any(key not in ("value", "observed_at") for key in answer):
        raise _failed(var, "unknown_field", "answered with fields beside value and observed_at")
    if "value" not in answer:
        raise _failed(var, "missing_value", "answered without a value")
    observed_at = answer.get("observed_at")
    if "observed_at" in answer and not _is_utc(observed_at):
        raise _failed(
            var,
            "wrong_observed_at",
            "gave an observed_at that is not like 2030-01-31T23:59:59.999Z",
        )
    return answer["value"], observed_at if isinstance(observed_at, str) else None


def _has_more(text: str) -> bool:
    try:
        _, end = json.JSONDecoder().raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return False
    return bool(text.lstrip(" \t\r\n")[end:].strip(" \t\r\n"))


def _is_utc(value: object) -> bool:
    if not isinstance(value, str) or _OBSERVED_AT.fullmatch(value) is None:
        return False
    try:
        datetime.datetime.fromisoformat(value[:19])
    except ValueError:
        return False
    return True


def _failed(var: VarConfig, code: str, text: str, hint: str | None = None) -> VariableError:
    return VariableError(
        code,
        f"variable {var.name!r}: provider {var.source.name!r} {text}",
        variable=var.name,
        hint=hint,
    )
