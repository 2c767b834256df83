"""What the contract registry answers when it says no.

The message is the user interface: the public CLI prints nothing else. So ``message`` is
complete in itself and ends with what to do; ``hint`` is that last part alone. ``code`` is
the name of the rule, which programs may compare.
"""

from __future__ import annotations

from typing import ClassVar

from ..errors import ContractError, Problem

__all__ = [
    "Conflict",
    "Forbidden",
    "Invalid",
    "NotFound",
    "PublishingDisabled",
    "RegistryError",
    "StoreError",
    "Unauthenticated",
    "version_unknown",
]


class RegistryError(ContractError):
    """Base of every refusal and fault of the registry.

    Args:
        code: Name of the rule, for example ``"version_frozen"``.
        message: Which thing, and what was wrong with it.
        hint: What to do about it; appended to the message.
    """

    graphql_code: ClassVar[str] = "INTERNAL"

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(code, f"{message}; {hint}" if hint else message, hint=hint)


class NotFound(RegistryError):
    """A thing does not exist, or the caller may not know that it does."""

    graphql_code = "NOT_FOUND"


def version_unknown(ref: str, constraint: str | None) -> NotFound:
    """Return the refusal for a version that is not there, or not for the caller.

    Args:
        ref: ``@workspace/name``, without a version.
        constraint: What was asked for.
    """
    if constraint == "draft":
        return NotFound(
            "version_unknown",
            f"{ref} has no open draft that is visible to you",
            hint="open one first",
        )
    return NotFound(
        "version_unknown",
        f"no version of {ref} matches {constraint!a:.90}",
        hint="list its versions to see what there is",
    )


class Conflict(RegistryError):
    """The request is fine, but not in the state that the registry is in."""

    graphql_code = "CONFLICT"


class Invalid(RegistryError):
    """A value of the request is wrong.

    Args:
        problems: Places in a schema or another JSON value, when it is about one.
    """

    graphql_code = "BAD_USER_INPUT"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(code, message, hint=hint)
        self.problems = problems


class Forbidden(RegistryError):
    """The caller may see the thing, but not do this with it."""

    graphql_code = "FORBIDDEN"


class Unauthenticated(RegistryError):
    """The caller's key is missing, unknown, revoked or expired."""

    graphql_code = "UNAUTHENTICATED"


class PublishingDisabled(Forbidden):
    """The workspace does not let command lines and agents publish.

    The public CLI knows this code and shows a text of its own.
    """

    graphql_code = "CLI_PUBLISHING_DISABLED"

    def __init__(self, workspace: str) -> None:
        super().__init__(
            "CLI_PUBLISHING_DISABLED",
            f"publishing from the command line is disabled for workspace @{workspace}",
            hint="an owner or admin of it has to switch it on; where the registry runs, that is "
            f"raw registry workspace set {workspace} --cli-publishing on",
        )


class StoreError(RegistryError):
    """The database can not be used now. Nothing was changed."""

    graphql_code = "UNAVAILABLE"
