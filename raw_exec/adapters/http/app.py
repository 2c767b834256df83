"""The routes: what is checked before anything runs, and what is answered.

Order, cheapest first: whether the service is stopping, the rate, a place for the call, size
and form of the body. Whatever is refused here has run nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ...approval import Answer
from ...errors import ConfigError
from ...history import HistoryError
from ...interactions import InteractionError
from ...profiles import PROFILES
from .answers import Refused, encode, error_body, json_answer
from .calls import CallState, HostedCall
from .homes import Home
from .openapi import openapi_document
from .people import describe_question
from .requests import (
    check_query,
    read_answers,
    read_approval,
    read_body,
    read_call,
    read_session,
)
from .service import Service
from .streams import EventStream, abort_when_gone

__all__ = ["DEFAULT_PRINCIPAL", "PUBLIC_PATHS", "make_app"]

DEFAULT_PRINCIPAL: Final = "default"
PUBLIC_PATHS: Final = ("/healthz", "/readyz", "/openapi.json")
"""Nothing here tells of tools, calls or principals."""

_EVENT_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_TAKEN: Final = ("session_exists", "session_in_use")
_WRONG_ANSWERS: Final = ("answers_invalid", "answers_over_budget")
_NO_QUESTION: Final = ("interaction_unknown", "interaction_not_owned")

Handler = Callable[[Request], Awaitable[Any]]


def make_app(service: Service) -> Starlette:
    """Return the service as an ASGI application for trio.

    A request's principal is ``request.state.principal``, which ``BearerOnly`` sets; without
    it, it is ``"default"``.
    """
    routes = _Routes(service)

    route = partial(_route, service)

    async def refused(_request: Request, exc: Exception) -> Response:
        assert isinstance(exc, Refused)  # noqa: S101
        service.metrics.refuse(exc.code)
        return exc.response()

    async def unmatched(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)  # noqa: S101
        if exc.status_code == 405:
            text = "this path has no such method"
            return await refused(request, Refused("method_not_allowed", text, headers=exc.headers))
        return await refused(request, Refused("not_found", "there is nothing at this path"))

    async def broken(_request: Request, exc: Exception) -> Response:
        message = f"internal error: {type(exc).__name__}"
        return json_answer(500, error_body("service_failed", message))

    app = Starlette(
        routes=[
            route("/v1/call", POST=routes.make_call),
            route("/v1/calls/{call_id}", GET=routes.get_call, DELETE=routes.abort_call),
            route("/v1/calls/{call_id}/events", GET=routes.events),
            route("/v1/calls/{call_id}/answers", POST=routes.answer),
            route("/v1/calls/{call_id}/approval", POST=routes.approve),
            route("/v1/tools", GET=routes.tools),
            route("/v1/sessions", POST=routes.open_session),
            route("/v1/sessions/{session}", GET=routes.get_session, DELETE=routes.close_session),
            route("/healthz", GET=routes.health),
            route("/readyz", GET=routes.ready),
            route("/metrics", GET=routes.show_metrics),
            route("/openapi.json", GET=routes.openapi),
        ],
        exception_handlers={Refused: refused, HTTPException: unmatched, Exception: broken},
    )
    app.router.redirect_slashes = False
    return app


def _route(service: Service, path: str, **handlers: Handler) -> Route:
    """Return one route for all methods of a path, so that ``Allow`` names all of them.

    Requests that need a key count for its rate.
    """

    async def dispatch(request: Request) -> Any:
        if path not in PUBLIC_PATHS:
            service.check_rate(_principal(request))
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](request)

    return Route(path, dispatch, methods=list(handlers))


def _principal(request: Request) -> str:
    return str(getattr(request.state, "principal", DEFAULT_PRINCIPAL))


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._openapi = encode(openapi_document(service.limits))

    def _home(self, request: Request) -> Home:
        return self._service.homes.of(_principal(request))

    def _call(self, request: Request) -> HostedCall:
        return self._home(request).calls.get(request.path_params["call_id"])

    # ------------------------------------------------------------ calls

    async def make_call(self, request: Request) -> Any:
        service = self._service
        service.check_open()
        check_query(request, ())
        principal = _principal(request)
        home = self._home(request)
        ticket = service.admission.enter(principal)
        try:
            limit = service.limits.body_bytes
            body = await read_body(request, service.limits, max_bytes=limit)
            asked = read_call(
                body, service.workplace_of(principal), wants_events=_wants_events(request)
            )
            call = service.start(home, asked, ticket)
        except BaseException:
            ticket.leave()
            raise
        if asked.detached:
            return json_answer(202, call.describe(), {"Location": f"/v1/calls/{call.id}"})
        if asked.stream:
            return EventStream(call, after=0, owns=True, ping_seconds=service.limits.ping_seconds)
        await abort_when_gone(call, request.receive)
        return json_answer(200 if call.state is CallState.DONE else 500, call.body)

    async def get_call(self, request: Request) -> Response:
        check_query(request, ())
        return json_answer(200, self._call(request).describe())

    async def abort_call(self, request: Request) -> Response:
        check_query(request, ())
        call = self._call(request)
        call.abort("deleted")
        await call.finished.wait()
        return json_answer(200, call.describe())

    async def events(self, request: Request) -> EventStream:
        check_query(request, ())
        call = self._call(request)
        seen = request.headers.get("last-event-id", "0")
        if _EVENT_NUMBER.fullmatch(seen) is None:
            message = f"Last-Event-ID {seen!r:.40} is not the number of an event"
            raise Refused("request_invalid", message)
        ping_seconds = self._service.limits.ping_seconds
        return EventStream(call, after=int(seen), owns=False, ping_seconds=ping_seconds)

    async def answer(self, request: Request) -> Response:
        check_query(request, ())
        call = self._call(request)
        reply = read_answers(await read_body(request, self._service.limits))
        session = call.home
        pending = () if session is None else session.questions()
        mine = [q for q in pending if q.request_id == reply.request_id]
        if session is None or not mine or mine[0].tool_call_id != call.id:
            raise Refused("question_unknown", "this call has no such question that is pending")
        try:
            done = await session.answer(
                reply.request_id,
                expected_revision=reply.revision or mine[0].revision,
                idempotency_key=reply.key or reply.request_id,
                answers=reply.answers,
                cancel=reply.cancel,
            )
        except InteractionError as exc:
            raise _refused_answer(exc) from exc
        return json_answer(200, {"request_id": reply.request_id, "state": done.state})

    async def approve(self, request: Request) -> Response:
        check_query(request, ())
        call = self._call(request)
        reply = read_approval(await read_body(request, self._service.limits))
        pending = call.approval
        if pending is None or pending.id != reply.approval_id or pending.answer is not None:
            raise Refused("approval_unknown", "this call has no such approval that is pending")
        pending.answer = Answer(reply.allow, reply.reason)
        pending.answered.set()
        return json_answer(200, {"approval_id": reply.approval_id, "allow": reply.allow})

    # ------------------------------------------------------------ tools

    async def tools(self, request: Request) -> Response:
        query = check_query(request, ("profile",))
        profile = query.get("profile")
        async with self._home(request).runtime() as runtime:
            registry = runtime.registry
            if profile is None:
                return json_answer(
                    200, {"tools": registry.definitions(), "cache_key": registry.cache_key}
                )
            try:
                found = registry.projected(profile)
            except ConfigError as exc:
                listed = ", ".join(PROFILES)
                raise Refused("profile_unknown", f"{exc.message}; one of {listed}") from exc
        withheld = [
            {
                "name": tool.tool_name,
                "identity": tool.identity,
                "problems": [
                    {"pointer": problem.pointer, "message": problem.message}
                    for problem in tool.problems
                ],
            }
            for tool in found.withheld
        ]
        return json_answer(
            200,
            {
                "profile": profile,
                "tools": found.definitions,
                "withheld": withheld,
                "warnings": list(found.warnings),
                "cache_key": registry.cache_key,
            },
        )

    # ------------------------------------------------------------ sessions

    async def open_session(self, request: Request) -> Response:
        service = self._service
        service.check_open()
        check_query(request, ())
        workplace = service.workplace_of(_principal(request))
        asked = read_session(await read_body(request, service.limits), workplace)
        service.check_open()
        try:
            await self._home(request).open_session(asked.name, resume=asked.resume, cwd=asked.cwd)
        except HistoryError as exc:
            if exc.code in _TAKEN:
                raise Refused("session_exists", exc.message, pointer="/session") from exc
            raise
        body = {"session": asked.name, "cwd": asked.cwd}
        return json_answer(201, body, {"Location": f"/v1/sessions/{asked.name}"})

    async def get_session(self, request: Request) -> Response:
        check_query(request, ())
        name = request.path_params["session"]
        with self._home(request).session(name) as session:
            panels = [view.as_dict() for view in session.panels()]
            questions = [
                {**describe_question(question), "call_id": question.tool_call_id}
                for question in session.questions()
            ]
        return json_answer(200, {"session": name, "panels": panels, "questions": questions})

    async def close_session(self, request: Request) -> Response:
        check_query(request, ())
        await self._home(request).close_session(request.path_params["session"])
        return Response(status_code=204)

    # ------------------------------------------------------------ operation

    async def health(self, _request: Request) -> Response:
        return json_answer(200, {"alive": True})

    async def ready(self, _request: Request) -> Response:
        problems = self._service.problems()
        return json_answer(
            503 if problems else 200, {"ready": not problems, "problems": list(problems)}
        )

    async def show_metrics(self, _request: Request) -> Response:
        text, media_type = self._service.metrics.render()
        return PlainTextResponse(text, media_type=media_type)

    async def openapi(self, _request: Request) -> Response:
        return json_answer(200, self._openapi)


def _wants_events(request: Request) -> bool:
    kinds = request.headers.get("accept", "").split(",")
    return any(kind.partition(";")[0].strip().lower() == "text/event-stream" for kind in kinds)


def _refused_answer(exc: InteractionError) -> Refused:
    if exc.code in _WRONG_ANSWERS:
        pointer = exc.problems[0].pointer if exc.problems else ""
        return Refused(
            "answers_invalid", f"{exc.code}: {exc.message}", pointer=pointer, problems=exc.problems
        )
    if exc.code in _NO_QUESTION:
        return Refused("question_unknown", exc.message)
    return Refused("answer_refused", f"{exc.code}: {exc.message}")
