"""Reading requests: bounded, strict, and refused with the place that is wrong."""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import trio
from starlette.requests import ClientDisconnect, Request

from ...errors import Problem, first_problem
from ...fields import Cursor, Document
from ...jsontext import JsonTextError, parse
from ...limits import MAX_ARGUMENT_NODES, MAX_JSON_DEPTH, MAX_OUTPUT_BYTES
from .answers import Refused
from .calls import new_call_id
from .limits import ServiceLimits

__all__ = [
    "MAX_PATH_CHARS",
    "MAX_REASON_CHARS",
    "MAX_TOOL_NAME_CHARS",
    "NAME",
    "AnswerRequest",
    "ApprovalReply",
    "CallRequest",
    "SessionRequest",
    "Workplace",
    "check_query",
    "read_answers",
    "read_approval",
    "read_body",
    "read_call",
    "read_session",
]

T = TypeVar("T")

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
"""Of calls and sessions that clients name."""

MAX_TOOL_NAME_CHARS: Final = 512
MAX_PATH_CHARS: Final = 4096
MAX_REASON_CHARS: Final = 1000
_DRAINED: Final = 16
"""A body this many times too big is still read to its end, so that the answer is seen."""

_SMALL_BYTES: Final = 64 * 1024
"""Of a body that is no call; answers to a question have at most 16 KiB."""

_IN_A_THREAD: Final = 64 * 1024
"""Bytes of a body from which on it is parsed in a thread."""

_MAX_FIELDS: Final = 64
"""Of a body, known and unknown ones: each unknown one is compared with those that are known."""

_CALL_FIELDS: Final = (
    "name",
    "arguments",
    "cwd",
    "max_output_bytes",
    "timeout_seconds",
    "session",
    "call_id",
    "stream",
    "async",
    "interactive",
)


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call that a client asks for.

    Args:
        name: The model-visible name.
        arguments: JSON data.
        call_id: The client's name for it, or one that was made up.
        session: An open session, or ``None``.
        stream: Answer with events.
        detached: Answer at once, and let the client come back.
        interactive: The client answers questions and approvals.
        options: Further arguments of ``dispatch``.
    """

    name: str
    arguments: Any
    call_id: str
    session: str | None
    stream: bool
    detached: bool
    interactive: bool
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """A session that a client asks for."""

    name: str
    resume: bool
    cwd: str | None


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """An answer to a question."""

    request_id: str
    answers: Any
    cancel: bool
    revision: int | None
    key: str | None


@dataclass(frozen=True, slots=True)
class ApprovalReply:
    """A decision about an approval."""

    approval_id: str
    allow: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where calls may work.

    Args:
        roots: Absolute directories without links; the first is the default.
    """

    roots: tuple[str, ...]

    def resolve(self, asked: str | None) -> str:
        """Return an existing directory in one of the roots.

        Security: a sandbox may write to the working directory, so a client that could name
        any could have any.

        Raises:
            Refused: ``cwd_not_allowed``.
        """
        if asked is None:
            return self.roots[0]
        path = os.path.realpath(os.path.join(self.roots[0], asked))
        inside = any(path == root or path.startswith(root.rstrip("/") + "/") for root in self.roots)
        # One message for both, so that nobody finds out what exists elsewhere.
        if not inside or not os.path.isdir(path):
            raise Refused(
                "cwd_not_allowed",
                f"{asked!r:.200} is no directory that calls of this key may work in",
                pointer="/cwd",
            )
        return path


# ---------------------------------------------------------------- bodies


async def read_body(
    request: Request, limits: ServiceLimits, *, max_bytes: int = _SMALL_BYTES
) -> Any:
    """Read a JSON body.

    Args:
        max_bytes: What may be kept of it in memory; more only where a place was taken for it.

    Raises:
        Refused: It is too big, too slow, incomplete, or no JSON.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        message = "a request's body is JSON; send it with Content-Type: application/json"
        raise Refused("media_type_unsupported", message)
    raw = await _read(request, max_bytes, limits.body_seconds)
    read = partial(
        parse,
        raw,
        max_bytes=max_bytes,
        max_depth=MAX_JSON_DEPTH + 2,
        max_nodes=MAX_ARGUMENT_NODES + 100,
    )
    try:
        # Explaining what is wrong with a large text takes seconds.
        if len(raw) > _IN_A_THREAD:
            return await trio.to_thread.run_sync(read)
        return read()
    except JsonTextError as exc:
        problems = exc.problems or (Problem("", exc.message),)
        message = f"the body can not be used: {first_problem(problems)}"
        raise Refused(
            "request_invalid", message, pointer=problems[0].pointer, problems=problems
        ) from None


async def _read(request: Request, max_bytes: int, seconds: float) -> bytes:
    read = bytearray()
    size = 0
    try:
        with trio.fail_after(seconds):
            async with aclosing(request.stream()) as chunks:
                async for chunk in chunks:
                    size += len(chunk)
                    if size <= max_bytes:
                        read += chunk
                        continue
                    read.clear()
                    if size > _DRAINED * max_bytes:
                        break
    except trio.TooSlowError:
        message = f"the body did not arrive within {seconds:g} s"
        raise Refused("body_too_slow", message, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refused("body_incomplete", "the body ended early") from None
    if size > max_bytes:
        message = f"the body has over {max_bytes} bytes"
        raise Refused("body_too_large", message, headers={"Connection": "close"})
    return bytes(read)


def _checked(value: Any, check: Callable[[Cursor], T | None]) -> T:
    if isinstance(value, dict) and len(value) > _MAX_FIELDS:
        raise Refused("request_invalid", f"the body has {len(value)} fields")
    document = Document("")
    found = check(document.root(value))
    # A program made the body: pointers are of use to it, lines are not.
    problems = document.problems(located=False)
    if problems or found is None:
        message = first_problem(problems)
        raise Refused("request_invalid", message, pointer=problems[0].pointer, problems=problems)
    return found


def _boolean(fields: Mapping[str, Cursor], name: str) -> bool:
    return bool(fields[name].boolean()) if name in fields else False


def _text(
    fields: Mapping[str, Cursor], name: str, max_chars: int, *, min_chars: int = 1
) -> str | None:
    if name not in fields:
        return None
    return fields[name].string(min_chars=min_chars, max_chars=max_chars)


def _directory(fields: Mapping[str, Cursor]) -> str | None:
    cwd = _text(fields, "cwd", MAX_PATH_CHARS)
    if cwd is not None and "\0" in cwd:
        fields["cwd"].fail("must not contain a NUL character")
    return cwd


def _name(fields: Mapping[str, Cursor], name: str, what: str) -> str | None:
    return fields[name].name(NAME, what) if name in fields else None


# ---------------------------------------------------------------- calls


def read_call(value: Any, workplace: Workplace, *, wants_events: bool) -> CallRequest:
    """Check the body of ``POST /v1/call``.

    Args:
        wants_events: Whether the request's ``Accept`` asks for events.

    Raises:
        Refused: ``request_invalid`` or ``cwd_not_allowed``.
    """

    def check(root: Cursor) -> CallRequest | None:
        fields = root.fields(_CALL_FIELDS, required=("name", "arguments"))
        if fields is None:
            return None
        stream = _boolean(fields, "stream") or (wants_events and "stream" not in fields)
        detached = _boolean(fields, "async")
        if stream and detached:
            root.document.add("/async", "a call can't be both async and a stream")
        name = _text(fields, "name", MAX_TOOL_NAME_CHARS)
        options: dict[str, Any] = {}
        if "max_output_bytes" in fields:
            options["max_output_bytes"] = fields["max_output_bytes"].integer(1, MAX_OUTPUT_BYTES)
        if "timeout_seconds" in fields:
            options["timeout_seconds"] = _seconds(fields["timeout_seconds"])
        cwd = _directory(fields)
        call_id = _name(fields, "call_id", "call id")
        session = _name(fields, "session", "session")
        interactive = _boolean(fields, "interactive") if "interactive" in fields else stream
        if name is None or not root.document.ok:
            return None
        if cwd is not None:
            options["cwd"] = cwd
        return CallRequest(
            name,
            fields["arguments"].value if "arguments" in fields else None,
            call_id or new_call_id(),
            session,
            stream,
            detached,
            interactive,
            options,
        )

    found = _checked(value, check)
    cwd = found.options.get("cwd")
    if cwd is None:
        return found  # the session's directory, or the holder's
    return replace(found, options={**found.options, "cwd": workplace.resolve(cwd)})


def _seconds(cursor: Cursor) -> float | None:
    value = cursor.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        cursor.wrong_type("a number")
        return None
    if not (value > 0 and math.isfinite(value)):
        cursor.fail("must be over 0")
        return None
    return float(value)


# ---------------------------------------------------------------- the others


def read_session(value: Any, workplace: Workplace) -> SessionRequest:
    """Check the body of ``POST /v1/sessions``.

    Raises:
        Refused: ``request_invalid`` or ``cwd_not_allowed``.
    """

    def check(root: Cursor) -> SessionRequest | None:
        fields = root.fields(("session", "resume", "cwd"))
        if fields is None:
            return None
        name = _name(fields, "session", "session")
        cwd = _directory(fields)
        resume = _boolean(fields, "resume")
        if "resume" in fields and "session" not in fields:
            root.fail("what to resume is missing: session")
        return SessionRequest(name or f"session_{secrets.token_hex(8)}", resume, cwd)

    found = _checked(value, check)
    return replace(found, cwd=workplace.resolve(found.cwd))


def read_answers(value: Any) -> AnswerRequest:
    """Check the body of ``POST /v1/calls/{id}/answers``.

    Raises:
        Refused: ``request_invalid``.
    """

    def check(root: Cursor) -> AnswerRequest | None:
        known = ("request_id", "answers", "cancel", "revision", "idempotency_key")
        fields = root.fields(known, required=("request_id",))
        if fields is None:
            return None
        request_id = _text(fields, "request_id", 200)
        cancel = _boolean(fields, "cancel")
        if cancel == ("answers" in fields):
            root.fail("give either answers, or cancel: true")
        revision = fields["revision"].integer(1, 2**53 - 1) if "revision" in fields else None
        key = _text(fields, "idempotency_key", 128)
        answers = fields["answers"].value if "answers" in fields else None
        if request_id is None:
            return None
        return AnswerRequest(request_id, answers, cancel, revision, key)

    return _checked(value, check)


def read_approval(value: Any) -> ApprovalReply:
    """Check the body of ``POST /v1/calls/{id}/approval``.

    Raises:
        Refused: ``request_invalid``.
    """

    def check(root: Cursor) -> ApprovalReply | None:
        fields = root.fields(("approval_id", "allow", "reason"), required=("approval_id", "allow"))
        if fields is None or "allow" not in fields:
            return None
        approval_id = _text(fields, "approval_id", 200)
        allow = fields["allow"].boolean()
        reason = _text(fields, "reason", MAX_REASON_CHARS, min_chars=0)
        if approval_id is None or allow is None:
            return None
        return ApprovalReply(approval_id, allow, reason)

    return _checked(value, check)


def check_query(request: Request, known: Sequence[str]) -> Mapping[str, str]:
    """Return the query of a request.

    Raises:
        Refused: ``request_invalid``: a parameter is unknown, or there twice.
    """
    found: dict[str, str] = {}
    for key, value in request.query_params.multi_items():
        if key not in known:
            listed = ", ".join(known) or "none"
            message = f"unknown query parameter {key!r:.80}; known: {listed}"
            raise Refused("request_invalid", message)
        if key in found:
            raise Refused("request_invalid", f"query parameter {key!r} is there twice")
        found[key] = value
    return found
