"""Every exception that callers of raw_exec may see.

The class says whose fault it was; ``code`` is a stable string that programs
may compare; the wording of ``message`` is for people and may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "CallRefused",
    "ConfigError",
    "ContractError",
    "InternalError",
    "LocalWireError",
    "ManifestError",
    "PolicyError",
    "Problem",
    "RawExecError",
    "RemoteWireError",
    "SandboxError",
    "SchemaError",
    "WireError",
    "WorkerBroken",
    "WorkerError",
    "first_problem",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one place of an input.

    Args:
        pointer: JSON Pointer (RFC 6901) of the value; ``""`` is the whole document.
        message: What is wrong with which value, lower case, no full stop.
        line: 1-based line in the source text, when known.
        column: 1-based column (in code points) in the source text, when known.
    """

    pointer: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = self.pointer or "(root)"
        if self.line is not None:
            place = f"{self.line}:{self.column} {place}"
        return f"{place}: {self.message}"


def first_problem(problems: Sequence[Problem]) -> str:
    """Return the first of one or more problems in a line, and how many more there are."""
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


class RawExecError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        code: Stable identifier, for example ``"config_invalid"``.
        message: One line for a person: which thing, and what was wrong with it.
        where: The file, tool or worker concerned.
        hint: What would make it work.
    """

    def __init__(
        self, code: str, message: str, *, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class ProblemError(RawExecError):
    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.problems = problems


class ConfigError(ProblemError):
    """The configuration file, or what it selects, is wrong."""


class ManifestError(ProblemError):
    """A plugin's folder or manifest is wrong."""


class SchemaError(ProblemError):
    """A JSON Schema is refused; ``problems`` point into the schema."""


class ContractError(RawExecError):
    """A contract version is unknown, or two contracts do not fit."""


class PolicyError(RawExecError):
    """A rule is wrong. Raised at load time only.

    Args:
        rule: Index of the rule in ``tools.rules``, when it is about one rule.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        rule: int | None = None,
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.rule = rule


class CallRefused(RawExecError):
    """A call was decided against. A normal outcome, not a fault.

    Args:
        stage: The dispatch stage that refused.
        detail: JSON-compatible facts: rule, problems, limit, failing step.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        stage: str,
        detail: dict[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.stage = stage
        self.detail = detail or {}


class WorkerError(RawExecError):
    """A worker process did something that ends its use."""


class WorkerBroken(WorkerError):
    """A worker died, was killed, or timed out.

    Args:
        detail: JSON-compatible evidence: exit code, signal, limit, OOM source.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.detail = detail or {}


class WireError(WorkerError):
    """The worker protocol was broken."""


class LocalWireError(WireError):
    """This side tried to send something the protocol does not allow: our bug."""


class RemoteWireError(WireError):
    """The worker sent something the protocol does not allow."""


class SandboxError(RawExecError):
    """A restriction that was asked for is not in force.

    Args:
        step: The set-up step that failed, for example ``"landlock"``.
        errno: The kernel's error number, when it gave one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        step: str | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.step = step
        self.errno = errno


class InternalError(RawExecError):
    """An invariant of this package broke. Please report it."""
