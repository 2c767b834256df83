"""Run one GraphQL request, from a token and a decoded body to an answer.

Synchronous on purpose: asynchronous execution needs asyncio as soon as two resolvers wait,
and the server runs on trio. The server calls this in a thread.

Contract source: registry wire interface §1.3: refusals are answered with 200 and an entry in
``errors`` whose message is all that the public CLI shows; 401 says that the key is no good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ariadne import EnumType, graphql_sync, make_executable_schema
from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    NoSchemaIntrospectionCustomRule,
    specified_rules,
)

from ...errors import Problem
from ..errors import Invalid, RegistryError, Unauthenticated
from ..model import (
    Client,
    FileFormat,
    Principal,
    PromptKind,
    Provider,
    Role,
    Status,
    Visibility,
)
from ..service import authenticate
from ..store import Store
from .context import RequestContext
from .documents import InvalidDocument, read_document
from .limits import Budget, ServerLimits
from .mutations import mutation
from .queries import READING_TYPES, SCALARS

__all__ = ["Answer", "Caller", "error_body", "execute", "load_schema"]

_log = logging.getLogger("raw_exec.registry")
_silent = logging.getLogger("raw_exec.registry.refusals")
_silent.disabled = True  # refusals are answers; what is our fault is logged below

_RULES: Final = (*specified_rules, NoSchemaIntrospectionCustomRule)
_ENUMS: Final = (
    EnumType("ToolVersionStatus", Status),
    EnumType("PromptVersionStatus", Status),
    EnumType("PromptKind", PromptKind),
    EnumType("PromptFileFormat", FileFormat),
    EnumType("Visibility", Visibility),
    EnumType("WorkspaceRole", Role),
    EnumType("LlmProvider", Provider),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """What the headers of a request say.

    Args:
        token: The bearer token, ``None`` for nobody in particular.
        client: ``"cli"`` for ``X-Client: cli``.
        workspace: ``X-Workspace``, unchecked.
    """

    token: str | None
    client: Client
    workspace: str | None

    def __repr__(self) -> str:
        return f"Caller(client={self.client!r}, workspace={self.workspace!r})"


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back: an HTTP status and a JSON body."""

    status: int
    body: dict[str, Any]


@cache
def load_schema() -> GraphQLSchema:
    """Return the schema with its resolvers. It holds no state, so all applications share it."""
    text = Path(__file__).with_name("schema.graphql").read_text("utf-8")
    return make_executable_schema(
        text, *READING_TYPES, mutation, *SCALARS, *_ENUMS, convert_names_case=True
    )


def execute(
    schema: GraphQLSchema,
    store: Store,
    caller: Caller,
    body: object,
    limits: ServerLimits,
    now: Callable[[], float],
) -> Answer:
    """Authenticate, check and run one request. Blocks on the database; raises nothing.

    Args:
        body: The decoded JSON of the request.
        now: A monotonic clock, in seconds.
    """
    try:
        principal = _authenticate(store, caller)
    except RegistryError as exc:
        return Answer(401 if isinstance(exc, Unauthenticated) else 200, error_body(exc))
    context = RequestContext(store, principal, caller.workspace, Budget(limits, now))

    try:
        _, result = graphql_sync(
            schema,
            body,
            context_value=context,
            query_document=_document_of(schema, body, limits),
            query_validator=_is_validated,
            error_formatter=_format_error,
            logger=_silent,
        )
    except GraphQLError as exc:
        return Answer(200, {"data": None, "errors": [_format_error(exc)]})
    except InvalidDocument as exc:
        return Answer(200, {"data": None, "errors": [_format_error(one) for one in exc.errors]})
    except RecursionError:
        refused = Invalid("query_too_deep", "the query is nested too deeply", hint="simplify it")
        return Answer(200, error_body(refused))
    except Exception:
        _log.exception("a GraphQL request failed")
        return Answer(200, {"data": None, "errors": [_internal_error()]})
    return Answer(401 if context.key_refused else 200, {"data": None, **result})


def _authenticate(store: Store, caller: Caller) -> Principal:
    if caller.token is None:
        return Principal.anonymous(caller.client)
    return store.read(lambda s: authenticate(s, caller.token, client=caller.client))


def _document_of(schema: GraphQLSchema, body: object, limits: ServerLimits) -> DocumentNode | None:
    """Return the document of a request; ``None`` for a body without one, which is told later."""
    text = body.get("query") if isinstance(body, dict) else None
    return read_document(schema, text, limits, _RULES) if text and isinstance(text, str) else None


def _is_validated(*_args: Any, **_named: Any) -> list[GraphQLError]:
    # Security: only documents of ``_document_of`` get here, and those passed every rule.
    return []


def error_body(exc: RegistryError) -> dict[str, Any]:
    """Return the answer for a request of which nothing was run."""
    return {"data": None, "errors": [_registry_error(exc)]}


def _format_error(error: GraphQLError, _debug: bool = False) -> dict[str, Any]:
    cause: BaseException | None = error
    while isinstance(cause, GraphQLError) and cause.original_error is not None:
        cause = cause.original_error
    formatted: dict[str, Any]
    if isinstance(cause, RegistryError):
        formatted = _registry_error(cause)
    elif isinstance(cause, GraphQLError) or error.path is None:
        # Without a path nothing was resolved yet, so the request itself is wrong.
        code = (error.extensions or {}).get("code", "BAD_USER_INPUT")
        rule = (error.extensions or {}).get("rule", "bad_query")
        formatted = {"message": error.message, "extensions": {"code": code, "rule": rule}}
    else:
        _log.error("a resolver failed at %s", error.path, exc_info=cause)
        formatted = _internal_error()
    if error.path is not None:
        formatted["path"] = list(error.path)
    if error.locations:
        formatted["locations"] = [
            {"line": place.line, "column": place.column} for place in error.locations
        ]
    return formatted


def _internal_error() -> dict[str, Any]:
    # Security: what went wrong is for the server's log, it may quote anything.
    message = "the registry failed; whoever runs it finds the reason in its log"
    return {"message": message, "extensions": {"code": "INTERNAL", "rule": "internal"}}


def _registry_error(exc: RegistryError) -> dict[str, Any]:
    # The public CLI decodes ``code`` as a string or null, and ignores the rest.
    extensions: dict[str, Any] = {"code": exc.graphql_code, "rule": exc.code, "hint": exc.hint}
    problems: tuple[Problem, ...] = getattr(exc, "problems", ())
    if problems:
        extensions["problems"] = [
            {"pointer": problem.pointer, "message": problem.message} for problem in problems
        ]
    return {"message": exc.message, "extensions": extensions}
