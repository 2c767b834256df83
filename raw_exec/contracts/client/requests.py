"""How an operation becomes one GraphQL request, and its answer a value or an exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ..model import UNSET, Page, Status
from .decode import decoding, error_of, field, read_page
from .transport import Transport

__all__ = ["Requests", "given", "word"]

T = TypeVar("T")

_TYPES: Final = {
    "toolName": "ID!",
    "promptName": "ID!",
    "version": "ID!",
    "fileName": "ID!",
    "name": "String!",
    "description": "String",
    "search": "String",
    "constraint": "String",
    "pagination": "PaginationArgs!",
    "kind": "PromptKind",
    "expectedRevision": "Int",
    "set": "JSON",
    "delete": "[String!]",
    "replace": "Boolean",
    "outputSchema": "JSON",
    "readme": "String!",
    "modelConfig": "ModelConfigInput!",
    "isEntrypoint": "Boolean!",
    "tool": "ToolIdentifierInput!",
    "alias": "String!",
    "input": "UpdateToolVersionInput!",
}
"""Of the variables that have one type wherever they are used."""


class Requests:
    """Asks one server. Names are bare; the workspace travels beside them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.address = transport.url

    def close(self) -> None:
        """Nothing is kept open between requests."""

    def _request(
        self, workspace: str | None, operation: str, root: str, variables: dict[str, Any]
    ) -> Any:
        headers = {"X-Client": "cli"}
        if workspace:
            headers["X-Workspace"] = workspace
        body = {"query": operation, "variables": variables}
        status, answer = self._transport.post("/graphql", body, headers)
        error = error_of(answer, status, workspace or "")
        if error is not None:
            raise error
        return decoding(lambda value: field(value, "data", dict)[root], answer)

    def _mutate(
        self,
        workspace: str,
        mutation: str,
        selection: str = "",
        types: Mapping[str, str] | None = None,
        /,
        **variables: Any,
    ) -> Any:
        """Run one mutation whose arguments are its variables, and return its value."""
        known = {**_TYPES, **(types or {})}
        declared = ", ".join(f"${key}: {known[key]}" for key in variables)
        passed = ", ".join(f"{key}: ${key}" for key in variables)
        chosen = f" {{ {selection} }}" if selection else ""
        text = f"mutation ({declared}) {{ {mutation}({passed}){chosen} }}"
        return self._request(workspace, text, mutation, variables)

    def _list(
        self,
        workspace: str,
        root: str,
        selection: str,
        read: Callable[[Any], T],
        skip: int,
        take: int,
        search: str | None,
    ) -> Page[T]:
        text = (
            "query ($pagination: PaginationArgs!, $search: String) "
            f"{{ {root}(pagination: $pagination, search: $search) "
            f"{{ data {{ {selection} }} total }} }}"
        )
        variables = {"pagination": {"skip": skip, "take": take}, "search": search}
        value = self._request(workspace, text, root, variables)
        return decoding(lambda one: read_page(one, read), value)


def given(**values: Any) -> dict[str, Any]:
    """Return what is set: an absent key keeps, null clears."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
        if value is not UNSET
    }


def word(status: Status | None) -> str | None:
    return None if status is None else status.value
