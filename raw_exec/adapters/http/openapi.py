"""The description of the service for programs: OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...limits import MAX_OUTPUT_BYTES
from ...profiles import PROFILES
from .answers import ERROR_STATUS
from .events import EVENT_KINDS
from .limits import ServiceLimits
from .requests import MAX_PATH_CHARS, MAX_REASON_CHARS, MAX_TOOL_NAME_CHARS, NAME

__all__ = ["openapi_document"]

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_NAME: Final = {"type": "string", "pattern": f"^{NAME.pattern}$"}
_ANY: Final[Mapping[str, Any]] = {}
_TEXT: Final = {"type": "string"}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(
    properties: Mapping[str, Any], required: tuple[str, ...] = (), *, closed: bool = True
) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        out["required"] = list(required)
    if closed:
        out["additionalProperties"] = False
    return out


def _answer(text: str, schema: Any, media_type: str = _JSON) -> dict[str, Any]:
    return {"description": text, "content": {media_type: {"schema": schema}}}


def _errors(*statuses: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for status in statuses:
        codes = [code for code, found in ERROR_STATUS.items() if found == status]
        what = "The call may have run" if status == 500 else "Nothing was run"
        answer = _answer(f"{what}: {', '.join(codes)}.", _ref("Error"))
        if status in (429, 503):
            answer["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
            }
        out[str(status)] = answer
    return out


_ALWAYS: Final = (400, 401, 403, 421, 429, 500)
"""What every path that needs a key may answer."""


def _operation(
    name: str,
    summary: str,
    answers: Mapping[str, Any],
    *errors: int,
    body: str | None = None,
    parameters: tuple[Mapping[str, Any], ...] = (),
    text: str | None = None,
    public: bool = False,
) -> dict[str, Any]:
    statuses = (403, 421) if public else tuple(sorted({*_ALWAYS, *errors}))
    if body is not None:
        statuses = tuple(sorted({*statuses, 408, 413, 415}))
    out: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {**answers, **_errors(*statuses)},
    }
    if text is not None:
        out["description"] = text
    if parameters:
        out["parameters"] = list(parameters)
    if body is not None:
        out["requestBody"] = {"required": True, "content": {_JSON: {"schema": _ref(body)}}}
    if public:
        out["security"] = []
    return out


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _NAME}


_CALL_ID: Final = _in_path("call_id")
_SESSION: Final = _in_path("session")


def openapi_document(limits: ServiceLimits) -> dict[str, Any]:
    """Return the document; nothing in it depends on tools or callers."""
    from raw_exec import __version__

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raw serve",
            "version": __version__,
            "description": "Runs tools in sandboxed workers. A refusal, a failure and a timeout "
            "of a call are outcomes with status 200; other statuses mean that nothing was run, "
            "or that the service itself failed (500).",
        },
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(limits),
        },
    }


def _paths() -> dict[str, Any]:
    outcome = _answer("The outcome.", _ref("Result"))
    outcome["content"][_EVENTS] = {"schema": _ref("Event")}
    state = {"200": _answer("Where the call is.", _ref("Call"))}
    profile = {
        "name": "profile",
        "in": "query",
        "description": "A model provider: the tools as it is to be told of them.",
        "schema": {"type": "string", "enum": list(PROFILES)},
    }
    last_seen = {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The number of the last event that was seen; newer ones are sent.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,15}$"},
    }
    return {
        "/v1/call": {
            "post": _operation(
                "makeCall",
                "Call a tool.",
                {
                    "200": outcome,
                    "202": {
                        **_answer("Taken, with async.", _ref("Call")),
                        "headers": {"Location": {"schema": _TEXT}},
                    },
                },
                404,
                409,
                503,
                body="CallRequest",
                text="Answers with the outcome; with events when stream is true or Accept asks "
                "for them; at once when async is true. A client that goes away before the "
                "outcome gives the call up, unless it is async.",
            )
        },
        "/v1/calls/{call_id}": {
            "parameters": [_CALL_ID],
            "get": _operation("getCall", "Say where a call is.", state, 404),
            "delete": _operation(
                "abortCall",
                "Give a call up.",
                state,
                404,
                text="Answers when nothing of it runs any more. A call that was quicker keeps "
                "its result.",
            ),
        },
        "/v1/calls/{call_id}/events": {
            "parameters": [_CALL_ID],
            "get": _operation(
                "followCall",
                "Follow a call.",
                {"200": _answer("Events, up to the outcome.", _ref("Event"), _EVENTS)},
                404,
                parameters=(last_seen,),
            ),
        },
        "/v1/calls/{call_id}/answers": {
            "parameters": [_CALL_ID],
            "post": _operation(
                "answerQuestion",
                "Answer a question of a tool, or decline to.",
                {"200": _answer("It counts.", _ref("Answered"))},
                404,
                409,
                422,
                body="AnswerRequest",
            ),
        },
        "/v1/calls/{call_id}/approval": {
            "parameters": [_CALL_ID],
            "post": _operation(
                "approveCall",
                "Allow or refuse a call that a rule sends to approval.",
                {"200": _answer("It counts.", _ref("Approved"))},
                404,
                body="ApprovalReply",
            ),
        },
        "/v1/tools": {
            "get": _operation(
                "listTools",
                "List the tools.",
                {"200": _answer("The tools.", _ref("Tools"))},
                parameters=(profile,),
            )
        },
        "/v1/sessions": {
            "post": _operation(
                "openSession",
                "Open a session.",
                {
                    "201": {
                        **_answer("It is open.", _ref("SessionOpened")),
                        "headers": {"Location": {"schema": _TEXT}},
                    }
                },
                409,
                503,
                body="SessionRequest",
            )
        },
        "/v1/sessions/{session}": {
            "parameters": [_SESSION],
            "get": _operation(
                "getSession",
                "Show the panels and the pending questions of a session.",
                {"200": _answer("The session.", _ref("Session"))},
                404,
            ),
            "delete": _operation(
                "closeSession",
                "Abort the calls of a session, end its background processes and close it.",
                {"204": {"description": "It is closed."}},
                404,
            ),
        },
        "/healthz": {
            "get": _operation(
                "getHealth",
                "Say that the process is alive.",
                {"200": _answer("It is.", _object({"alive": {"const": True}}, ("alive",)))},
                public=True,
            )
        },
        "/readyz": {
            "get": _operation(
                "getReadiness",
                "Say whether calls can be made.",
                {
                    "200": _answer("They can.", _ref("Readiness")),
                    "503": _answer("They can't, and why.", _ref("Readiness")),
                },
                public=True,
            )
        },
        "/metrics": {
            "get": _operation(
                "getMetrics",
                "Metrics for Prometheus.",
                {"200": _answer("Text.", _TEXT, "text/plain")},
            )
        },
        "/openapi.json": {
            "get": _operation(
                "getDescription",
                "This document.",
                {"200": _answer("The document.", {"type": "object"})},
                public=True,
            )
        },
    }


def _schemas(limits: ServiceLimits) -> dict[str, Any]:
    problem = _object({"pointer": _TEXT, "message": _TEXT}, ("pointer", "message"), closed=False)
    error = _object(
        {
            "code": {"enum": [*ERROR_STATUS]},
            "message": _TEXT,
            "pointer": {"type": "string", "description": "JSON Pointer into the body."},
            "problems": {"type": "array", "items": problem},
        },
        ("code", "message", "pointer"),
    )
    panels = {"type": "array", "items": {"type": "object"}}
    return {
        "CallRequest": _object(
            {
                "name": {"type": "string", "minLength": 1, "maxLength": MAX_TOOL_NAME_CHARS},
                "arguments": {**_ANY, "description": "Checked against the tool's schema."},
                "cwd": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_PATH_CHARS,
                    "description": "A directory inside the one that the key may use.",
                },
                "max_output_bytes": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_OUTPUT_BYTES,
                },
                "timeout_seconds": {"type": "number", "exclusiveMinimum": 0},
                "session": {**_NAME, "description": "An open session."},
                "call_id": {
                    **_NAME,
                    "description": "A name of the client's choice; used once, it is refused.",
                },
                "stream": {"type": "boolean", "description": "Answer with events."},
                "async": {"type": "boolean", "description": "Answer at once with the name."},
                "interactive": {
                    "type": "boolean",
                    "description": "The client answers questions and approvals. Default: stream.",
                },
            },
            ("name", "arguments"),
        ),
        "Result": _result(),
        "Call": {
            "oneOf": [
                _object(
                    {"call_id": _NAME, "state": {"enum": ["queued", "running"]}},
                    ("call_id", "state"),
                ),
                _object(
                    {"call_id": _NAME, "state": {"const": "done"}, "result": _ref("Result")},
                    ("call_id", "state", "result"),
                ),
                _object(
                    {"call_id": _NAME, "state": {"const": "failed"}, "error": error},
                    ("call_id", "state", "error"),
                ),
            ],
            "description": "A finished call can be asked for until it is one of over "
            f"{limits.kept_calls}, or these hold over {limits.kept_bytes} bytes.",
        },
        "Event": {
            **_object(
                {
                    "id": {"type": "string", "pattern": "^[1-9][0-9]*$"},
                    "event": {"enum": [*EVENT_KINDS]},
                    "data": {"type": "string", "contentMediaType": _JSON},
                },
                ("id", "event", "data"),
            ),
            "description": "One server-sent event; its data is JSON: started {call_id}; panel, "
            "a panel's present state; progress {panel, status, done, total, summary}; question "
            "{request_id, panel, document, revision, expires_at}; approval {approval_id, identity, "
            "name, arguments, effects?, rule}; at the end result, a Result, or error, an Error.",
        },
        "Error": _object({"error": error}, ("error",)),
        "Tools": _object(
            {
                "profile": _TEXT,
                "tools": {"type": "array", "items": {"type": "object"}},
                "withheld": {"type": "array", "items": {"type": "object"}},
                "warnings": {"type": "array", "items": _TEXT},
                "cache_key": _TEXT,
            },
            ("tools", "cache_key"),
        ),
        "SessionRequest": {
            **_object(
                {
                    "session": {**_NAME, "description": "Default: made up."},
                    "resume": {"type": "boolean"},
                    "cwd": {"type": "string", "minLength": 1, "maxLength": MAX_PATH_CHARS},
                }
            ),
            "dependentRequired": {"resume": ["session"]},
        },
        "SessionOpened": _object({"session": _NAME, "cwd": _TEXT}, ("session", "cwd")),
        "Session": _object(
            {"session": _NAME, "panels": panels, "questions": panels},
            ("session", "panels", "questions"),
        ),
        "AnswerRequest": {
            **_object(
                {
                    "request_id": {"type": "string", "minLength": 1, "maxLength": 200},
                    "answers": _ANY,
                    "cancel": {"const": True},
                    "revision": {"type": "integer", "minimum": 1},
                    "idempotency_key": {"type": "string", "minLength": 1, "maxLength": 128},
                },
                ("request_id",),
            ),
            "oneOf": [{"required": ["answers"]}, {"required": ["cancel"]}],
        },
        "Answered": _object({"request_id": _TEXT, "state": _TEXT}, ("request_id", "state")),
        "ApprovalReply": _object(
            {
                "approval_id": {"type": "string", "minLength": 1, "maxLength": 200},
                "allow": {"type": "boolean"},
                "reason": {"type": "string", "maxLength": MAX_REASON_CHARS},
            },
            ("approval_id", "allow"),
        ),
        "Approved": _object(
            {"approval_id": _TEXT, "allow": {"type": "boolean"}}, ("approval_id", "allow")
        ),
        "Readiness": _object(
            {"ready": {"type": "boolean"}, "problems": {"type": "array", "items": _TEXT}},
            ("ready", "problems"),
        ),
    }


def _result() -> dict[str, Any]:
    """Return the schema of ``ToolResult.as_dict``; later versions may have more in it."""
    block = {
        "type": "object",
        "properties": {"type": {"enum": ["text", "json", "image"]}},
        "required": ["type"],
    }
    return _object(
        {
            "content": {"type": "array", "items": block},
            "is_error": {"type": "boolean"},
            "code": {"type": ["string", "null"]},
            "stage": _TEXT,
            "origin": {"enum": ["host", "tool"]},
            "enforced": {"type": "object"},
            "usage": {"type": "object"},
            "elapsed_ms": {"type": "number", "minimum": 0},
            "tool_call_id": _NAME,
            "detail": {"type": "object"},
            "hints": {"type": "array", "items": _TEXT},
            "logs": {"type": "object", "additionalProperties": _TEXT},
            "hooks": {"type": "array", "items": {"type": "object"}},
        },
        ("content", "is_error", "code", "stage", "origin", "elapsed_ms", "tool_call_id"),
        closed=False,
    )
