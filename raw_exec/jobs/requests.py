"""What a handler may ask about jobs: ``process.start``, ``list``, ``status``, ``output``, ``stop``.

Security: a request is authorised by the call it came from, which the supervisor knows; the
caller of this module gives it to calls of ``builtin/process`` only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..errors import RawExecError, SandboxError
from ..pool import RequestRefused
from ..pool.calls import RequestHandler
from ..sandbox import SandboxPlan
from .failures import JobError
from .ring import MAX_PAGE_BYTES, MIN_PAGE_BYTES
from .service import JobService
from .state import FINISHED

__all__ = ["METHOD_PREFIX", "job_requests"]

METHOD_PREFIX = "process."

_MAX_TIMEOUT_MS = 7 * 24 * 3600 * 1000
_MAX_CURSOR = 2**53 - 1


def job_requests(
    service: JobService,
    *,
    cwd: str,
    plan_for: Callable[[str], SandboxPlan],
    resolve_env: Callable[[object], Awaitable[Mapping[str, str]]],
) -> RequestHandler:
    """Return what answers the job requests of one call.

    Args:
        service: The jobs of the runtime.
        cwd: Absolute working directory of the call.
        plan_for: Derives the sandbox plan for a working directory.
        resolve_env: Resolves ``env_refs``; raises ``RawExecError``.
    """

    async def start(params: Any) -> Any:
        fields = _fields(params, "command", "cwd", "label", "timeout_ms", "env_refs")
        command = _text(fields, "command")
        if not command.strip() or "\0" in command:
            raise _invalid("command is blank or holds NUL")
        refs = fields["env_refs"]
        try:
            env = await resolve_env(refs) if refs else {}
        except RawExecError as exc:
            raise RequestRefused("vars_unavailable", str(exc)) from None
        return await service.start(
            command,
            plan=plan_for(cwd),
            base=cwd,
            cwd=_optional_text(fields, "cwd"),
            env=env,
            label=_optional_text(fields, "label"),
            timeout_ms=_optional_number(fields, "timeout_ms", 1, _MAX_TIMEOUT_MS),
        )

    async def list_all(params: Any) -> Any:
        _fields(params)
        return service.list()

    async def status(params: Any) -> Any:
        return service.status(_text(_fields(params, "id"), "id"))

    async def output(params: Any) -> Any:
        fields = _fields(params, "id", "cursor", "max_bytes", "max_encoded_bytes")
        page, job = service.output(
            _text(fields, "id"),
            cursor=_number(fields, "cursor", 0, _MAX_CURSOR),
            max_bytes=_number(fields, "max_bytes", MIN_PAGE_BYTES, MAX_PAGE_BYTES),
            max_encoded_bytes=_number(fields, "max_encoded_bytes", MIN_PAGE_BYTES, _MAX_CURSOR),
        )
        return {
            "id": job["id"],
            "state": job["state"],
            "cursor": page.cursor,
            "next_cursor": page.next_cursor,
            "text": page.text,
            "truncated": page.next_cursor < page.end,
            "dropped_bytes": page.dropped_bytes,
            "eof": job["state"] in FINISHED and page.next_cursor == page.end,
            "is_utf8": page.is_utf8,
        }

    async def stop(params: Any) -> Any:
        return await service.stop(_text(_fields(params, "id"), "id"))

    methods = {
        "start": start,
        "list": list_all,
        "status": status,
        "output": output,
        "stop": stop,
    }

    async def answer(method: str, params: Any) -> Any:
        found = methods.get(method.removeprefix(METHOD_PREFIX))
        if found is None or not method.startswith(METHOD_PREFIX):
            raise RequestRefused("unsupported", f"there is no method {method!r:.80}")
        try:
            return await found(params)
        except (JobError, SandboxError) as exc:
            hint = f"; {exc.hint}" if exc.hint else ""
            raise RequestRefused(exc.code, f"{exc.message}{hint}") from None

    return answer


def _invalid(message: str) -> JobError:
    return JobError("request_invalid", message)


def _fields(params: Any, *names: str) -> dict[str, Any]:
    if not isinstance(params, dict) or set(params) != set(names):
        raise _invalid(f"the request takes these fields: {', '.join(names) or 'none'}")
    return params


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise _invalid(f"{name} is not a text")
    return value


def _optional_text(fields: dict[str, Any], name: str) -> str | None:
    return None if fields[name] is None else _text(fields, name)


def _number(fields: dict[str, Any], name: str, least: int, most: int) -> int:
    value = fields[name]
    if type(value) is not int or not least <= value <= most:
        raise _invalid(f"{name} is not a number from {least} to {most}")
    return value


def _optional_number(fields: dict[str, Any], name: str, least: int, most: int) -> int | None:
    return None if fields[name] is None else _number(fields, name, least, most)
