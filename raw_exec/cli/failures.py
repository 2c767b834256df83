"""Exceptions to exit statuses and to words.

Exit statuses: 0 ok, 1 the tool returned an error, 2 usage or configuration, 3 validation,
4 refused by policy or approval, 5 worker crash or protocol, 6 timeout or limit, 7 sandbox
unavailable, 8 conflict (registry or commit), 70 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..errors import (
    CallRefused,
    ConfigError,
    ContractError,
    InternalError,
    ManifestError,
    PolicyError,
    Problem,
    RawExecError,
    SandboxError,
    SchemaError,
    WorkerError,
)
from .options import Settings

__all__ = [
    "EXIT_BUG",
    "EXIT_INTERRUPTED",
    "EXIT_SANDBOX",
    "EXIT_USAGE",
    "EXIT_VALIDATION",
    "Interrupted",
    "exit_status_of",
    "extra_missing",
    "only_cause",
    "report",
    "report_usage",
]

EXIT_USAGE = 2
EXIT_VALIDATION = 3
EXIT_REFUSED = 4
EXIT_WORKER = 5
EXIT_SANDBOX = 7
EXIT_CONFLICT = 8
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

_BY_CLASS: tuple[tuple[type[RawExecError], int], ...] = (
    (ConfigError, EXIT_USAGE),
    (PolicyError, EXIT_USAGE),
    (ManifestError, EXIT_VALIDATION),
    (SchemaError, EXIT_VALIDATION),
    (SandboxError, EXIT_SANDBOX),
    (WorkerError, EXIT_WORKER),
    (InternalError, EXIT_BUG),
)
_BY_CODE = {"node_missing": EXIT_SANDBOX}
_BY_REGISTRY_CODE = {
    "BAD_USER_INPUT": EXIT_VALIDATION,
    "FORBIDDEN": EXIT_REFUSED,
    "UNAUTHENTICATED": EXIT_REFUSED,
    "CLI_PUBLISHING_DISABLED": EXIT_REFUSED,
}
"""Of refusals of the contract registry; the others are conflicts."""


class Interrupted(RawExecError):
    """The user, or a signal, stopped the command."""

    def __init__(self) -> None:
        super().__init__("aborted", "interrupted; nothing is left running")


def extra_missing(exc: ModuleNotFoundError, what: str, extra: str) -> ConfigError:
    """Return what to say when a package that belongs to an extra is not installed.

    Args:
        exc: The failed import.
        what: What needs it, as the subject of a sentence.
        extra: The one that installs it.
    """
    return ConfigError(
        "extra_missing",
        f"{what} needs the package {exc.name!r}, which is not installed",
        hint=f"pip install 'raw-exec[{extra}]'",
    )


def exit_status_of(exc: BaseException) -> int:
    """Return the exit status for an exception."""
    if isinstance(exc, Interrupted | KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if not isinstance(exc, RawExecError):
        return EXIT_BUG
    if exc.code in _BY_CODE:
        return _BY_CODE[exc.code]
    if isinstance(exc, ContractError):
        return _BY_REGISTRY_CODE.get(getattr(exc, "graphql_code", ""), EXIT_CONFLICT)
    if isinstance(exc, CallRefused | WorkerError):
        from ..dispatch.outcome import CODES, ToolResult, exit_status

        if exc.code in CODES:
            return exit_status(ToolResult((), True, exc.code, "", {}, {}, 0.0))
    for kind, status in _BY_CLASS:
        if isinstance(exc, kind):
            return status
    return EXIT_USAGE


def only_cause(exc: BaseException) -> BaseException:
    """Return the one thing that went wrong in a group of exceptions.

    Nurseries wrap what they raise. An interrupt beats everything; several errors that are
    all ours are told by their first; anything else stays the group it is.
    """
    if not isinstance(exc, BaseExceptionGroup):
        return exc
    leaves = list(_leaves(exc))
    for leaf in leaves:
        if isinstance(leaf, KeyboardInterrupt | Interrupted):
            return leaf
    if all(isinstance(leaf, RawExecError) for leaf in leaves) or len(leaves) == 1:
        return leaves[0]
    return exc


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in exc.exceptions:
            yield from _leaves(inner)
    else:
        yield exc


def report(exc: BaseException, settings: Settings) -> int:
    """Print an exception for the user and return the exit status."""
    exc = only_cause(exc)
    status = exit_status_of(exc)
    if isinstance(exc, KeyboardInterrupt):
        exc = Interrupted()
    if status == EXIT_BUG:
        return _report_bug(exc, settings)
    assert isinstance(exc, RawExecError)  # noqa: S101  (everything else is a bug)
    problems: tuple[Problem, ...] = getattr(exc, "problems", ())
    if settings.as_json:
        settings.output.json({"error": _as_dict(exc, problems)})
        return status
    more: list[str] = []
    text = str(exc)
    if len(problems) == 1:
        text = _located(problems[0], exc.where)
    elif problems:
        text = f"{exc.where}: " if exc.where else ""
        text += f"{len(problems)} problems"
        more = [str(problem) for problem in problems]
    # What a registry says ends with what to do already.
    hints = (exc.hint,) if exc.hint and not text.endswith(exc.hint) else ()
    settings.output.error(text, hints=hints, more=more)
    if os.environ.get("RAW_EXEC_DEBUG"):
        traceback.print_exception(exc)
    return status


def _located(problem: Problem, where: str | None) -> str:
    """Return ``file:line:column: pointer: message``, which editors can follow."""
    place = where or ""
    if problem.line is not None:
        place = f"{place}:{problem.line}:{problem.column}" if place else str(problem.line)
    parts = [part for part in (place, problem.pointer) if part]
    return ": ".join((*parts, problem.message))


def _as_dict(exc: RawExecError, problems: tuple[Problem, ...]) -> dict[str, Any]:
    return {
        "code": exc.code,
        "message": exc.message,
        "where": exc.where,
        "hint": exc.hint,
        "problems": [
            {key: value for key, value in asdict(problem).items() if value is not None}
            for problem in problems
        ],
    }


def _report_bug(exc: BaseException, settings: Settings) -> int:
    name = type(exc).__name__
    text = f"internal error: {name}: {exc}"
    hint = "this is a bug; please report it with what RAW_EXEC_DEBUG=1 prints"
    if settings.as_json:
        error: dict[str, Any] = {
            "code": "internal",
            "message": f"{name}: {exc}",
            "where": None,
            "hint": hint,
            "problems": [],
        }
        settings.output.json({"error": error})
    else:
        settings.output.error(text, hints=(hint,))
    if os.environ.get("RAW_EXEC_DEBUG"):
        traceback.print_exception(exc, file=sys.stderr)
    return EXIT_BUG


def report_usage(message: str, hint: str | None, settings: Settings) -> int:
    """Print a mistake in the command line itself and return the exit status."""
    text = message[:1].lower() + message[1:].rstrip(".")
    if settings.as_json:
        error: dict[str, Any] = {
            "code": "usage",
            "message": text,
            "where": None,
            "hint": hint,
            "problems": [],
        }
        settings.output.json({"error": error})
    else:
        settings.output.error(text, hints=(hint,) if hint else ())
    return EXIT_USAGE
