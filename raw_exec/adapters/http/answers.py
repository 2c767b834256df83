"""What the service answers: JSON, and one form for every error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from starlette.responses import Response

from ...errors import Problem

__all__ = ["ERROR_STATUS", "Refused", "encode", "error_body", "json_answer"]

ERROR_STATUS: Final[Mapping[str, int]] = {
    "request_invalid": 400,
    "profile_unknown": 400,
    "body_incomplete": 400,
    "unauthenticated": 401,
    "cwd_not_allowed": 403,
    "foreign_origin": 403,
    "not_found": 404,
    "call_unknown": 404,
    "session_unknown": 404,
    "question_unknown": 404,
    "approval_unknown": 404,
    "method_not_allowed": 405,
    "body_too_slow": 408,
    "call_exists": 409,
    "session_exists": 409,
    "answer_refused": 409,
    "body_too_large": 413,
    "media_type_unsupported": 415,
    "foreign_host": 421,
    "answers_invalid": 422,
    "rate_limited": 429,
    "too_many_calls": 429,
    "too_many_sessions": 429,
    "service_failed": 500,
    "draining": 503,
}
"""Every code of the service itself. What a call ends in is a ``ToolResult``, not one of these."""

_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Refused(Exception):
    """A request ends here; nothing of it was run.

    Args:
        code: A key of ``ERROR_STATUS``.
        message: What is wrong with it.
        pointer: JSON Pointer of the value in the body that is wrong.
        problems: All that is wrong, when it is more than one thing.
        retry_after: Seconds after which it may be tried again.
        headers: Of the answer.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        pointer: str = "",
        problems: Sequence[Problem] = (),
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.pointer = pointer
        self.problems = tuple(problems)
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)

    def response(self) -> Response:
        """Return the answer."""
        body = error_body(self.code, self.message, self.pointer, self.problems)
        return json_answer(ERROR_STATUS[self.code], body, self.headers)


def error_body(
    code: str, message: str, pointer: str = "", problems: Sequence[Problem] = ()
) -> dict[str, Any]:
    """Return the JSON of an error."""
    error: dict[str, Any] = {"code": code, "message": message, "pointer": pointer}
    if problems:
        error["problems"] = [
            {key: value for key, value in asdict(problem).items() if value is not None}
            for problem in problems
        ]
    return {"error": error}


def encode(value: Any) -> bytes:
    """Return JSON data as UTF-8, in one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A lone surrogate can be in what came from a file name; JSON has an escape for it.
    return text.encode("utf-8", "backslashreplace")


def json_answer(
    status: int, body: object | bytes, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON answer that no cache keeps.

    Args:
        body: Encoded already when these are bytes.
    """
    content = body if isinstance(body, bytes) else encode(body)
    return Response(content, status, {**_ALWAYS, **(headers or {})}, "application/json")
