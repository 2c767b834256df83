"""What the resolvers of one request share: who asks, about which workspace, how much more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy.orm import Session

from ..errors import Invalid, Unauthenticated
from ..model import Principal
from ..names import check_workspace_name
from ..store import Store
from .limits import Budget

__all__ = ["RequestContext", "checked_id"]

P = ParamSpec("P")
T = TypeVar("T")

_MAX_ID_CHARS: Final = 256


def checked_id(value: Any) -> str:
    """Return a name, version or id that any database can be asked about.

    Raises:
        Invalid: ``bad_id``. What such a thing may look like is for the service to say.
    """
    text = str(value)
    if len(text) > _MAX_ID_CHARS or any(
        char == "\0" or 0xD800 <= ord(char) < 0xE000 for char in text
    ):
        raise Invalid(
            "bad_id",
            f"{text[:40]!a} is not a name or version",
            hint=f"use at most {_MAX_ID_CHARS} characters, without controls",
        )
    return text


@dataclass(slots=True)
class RequestContext:
    """One request.

    Args:
        workspace_name: The header ``X-Workspace``, unchecked.
        key_refused: Set when the caller's key stopped being valid in the middle.
    """

    store: Store
    principal: Principal
    workspace_name: str | None
    budget: Budget
    key_refused: bool = False

    @property
    def workspace(self) -> str:
        """The workspace that the request is about.

        Raises:
            Invalid: ``no_workspace`` or ``workspace_name``.
        """
        if self.workspace_name is None:
            raise Invalid(
                "no_workspace",
                "the request does not say which workspace it is about",
                hint="send its name, without the @, in the header X-Workspace",
            )
        return check_workspace_name(self.workspace_name)

    def read(
        self,
        operation: Callable[Concatenate[Session, Principal, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run a reading operation of the service in a transaction of its own."""
        return self._run(self.store.read, operation, *args, **named)

    def write(
        self,
        operation: Callable[Concatenate[Session, Principal, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run a writing operation of the service in a transaction of its own."""
        return self._run(self.store.write, operation, *args, **named)

    def _run(
        self,
        transact: Callable[[Callable[[Session], T]], T],
        operation: Callable[Concatenate[Session, Principal, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        take = named.get("take", 0)
        self.budget.spend(1 + (max(0, take) if isinstance(take, int) else 0))
        try:
            return transact(lambda session: operation(session, self.principal, *args, **named))
        except Unauthenticated as exc:
            # Security: a key that was revoked meanwhile ends the request as a refused one.
            self.key_refused = self.key_refused or exc.code.startswith("key_")
            raise
