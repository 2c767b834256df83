"""``context.panels`` and ``context.interactions``: what a worker sends, and what it never does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raw_exec.wire import Request, Result

UPDATE = {
    "node": """
        export async function handler(args, context) {
          const first = await context.panels.update('plan', args.body);
          return { first, got: await context.panels.get('plan') };
        }
    """,
    "python": """
        def handler(args, context):
            first = context.panels.update('plan', args['body'])
            return {'first': first, 'got': context.panels.get('plan')}
    """,
}
BODY = {"op": "replace", "document": {"title": "Plän", "blocks": [], "n": [1, 2.5, None, True]}}
GOT = {"revision": 7, "document": {"blocks": []}}

ASK = {
    "node": """
        export async function handler(args, context) {
          try {
            return await context.interactions.request(args);
          } catch (error) {
            return { name: error.name, code: error.code, message: error.message };
          }
        }
    """,
    "python": """
        async def handler(args, context):
            try:
                return await context.interactions.request(args)
            except Exception as exc:
                return {'name': type(exc).__name__, 'code': exc.code, 'message': str(exc)}
    """,
}
QUESTION = {"panel": "ask", "document": {"blocks": []}, "timeout_ms": 1000}

BAD = {
    "node": """
        const bad = {
          nan: { n: NaN }, undefined: undefined, bigint: { a: [1n] }, date: { when: new Date(0) },
          surrogate: { a: '\\ud800' }, large: { text: 'x'.repeat(2 ** 20) },
        };
        export async function handler(name, context) {
          try {
            return await context.panels.update('plan', bad[name]);
          } catch (error) {
            return [error.name, error.code, error.message];
          }
        }
    """,
    "python": """
        import datetime
        bad = {
            'nan': {'n': float('nan')}, 'undefined': ..., 'bigint': {'a': [2 ** 60]},
            'date': {'when': datetime.date(2000, 1, 1)}, 'surrogate': {'a': '\\ud800'},
            'large': {'text': 'x' * 2 ** 20},
        }
        def handler(name, context):
            try:
                return context.panels.update('plan', bad[name])
            except Exception as exc:
                return [type(exc).__name__, exc.code, str(exc)]
    """,
}


def _reply(worker: Any, request: Request, value: Any, error: Any = None) -> None:
    frame = worker.connection.send_reply(
        id=request.id, rid=request.rid, ok=error is None, value=value, error=error
    )
    worker.write(frame, worker.control)


@pytest.mark.parametrize("runtime", ["node", "python"])
def test_an_update_arrives_as_it_was_given(load: Callable[..., Any], runtime: str) -> None:
    """The document crosses the wire whole; the answers come back as values."""
    worker = load(runtime, UPDATE[runtime])
    worker.start_call({"body": BODY})
    request = worker.receive()
    assert isinstance(request, Request)
    assert (request.method, request.params) == ("panels.update", {"panel": "plan", "body": BODY})
    _reply(worker, request, 7)
    request = worker.receive()
    assert (request.method, request.params) == ("panels.get", {"panel": "plan"})
    _reply(worker, request, GOT)
    event = worker.receive()
    assert isinstance(event, Result)
    assert event.value == {"first": 7, "got": GOT}


@pytest.mark.parametrize("runtime", ["node", "python"])
def test_a_question_waits_for_its_answer(load: Callable[..., Any], runtime: str) -> None:
    """The handler goes on when the supervisor answers, with what it answers."""
    worker = load(runtime, ASK[runtime])
    worker.start_call(QUESTION)
    request = worker.receive()
    assert (request.method, request.params) == ("interactions.request", QUESTION)
    _reply(worker, request, {"status": "answered", "answers": {"a": "b"}})
    assert worker.receive().value == {"status": "answered", "answers": {"a": "b"}}


@pytest.mark.parametrize("runtime", ["node", "python"])
def test_a_refused_question_raises_with_its_code(load: Callable[..., Any], runtime: str) -> None:
    """A tool can tell an expired question from one that nobody could see."""
    worker = load(runtime, ASK[runtime])
    worker.start_call(QUESTION)
    error = {"code": "interaction_expired", "message": "nobody answered"}
    _reply(worker, worker.receive(), None, error)
    assert worker.receive().value == {"name": "InteractionError", **error}


@pytest.mark.parametrize("runtime", ["node", "python"])
@pytest.mark.parametrize("name", ["nan", "undefined", "bigint", "date", "surrogate"])
def test_what_is_no_json_is_refused_before_it_is_sent(
    load: Callable[..., Any], runtime: str, name: str
) -> None:
    """Nothing of a document is dropped or changed on the way."""
    worker = load(runtime, BAD[runtime])
    kind, code, message = worker.value(name)
    assert (kind, code) == ("PanelError", "panel_invalid")
    assert message.startswith(("/", "(root)"))


@pytest.mark.parametrize("runtime", ["node", "python"])
def test_a_huge_document_is_refused_where_it_is_made(
    load: Callable[..., Any], runtime: str
) -> None:
    """The supervisor need not read what it would refuse."""
    kind, code, _ = load(runtime, BAD[runtime]).value("large")
    assert (kind, code) == ("PanelError", "panel_too_large")


def test_a_getter_can_not_mix_a_request_into_another(load: Callable[..., Any]) -> None:
    """Reading a value runs the plugin's code while a frame's bytes are made."""
    worker = load(
        "node",
        """
        export async function handler(args, context) {
          let inner = 'nothing';
          const body = { op: 'close', get x() {
            context.vars.read('a').catch((error) => { inner = error.message; });
            context.panels.update('plan', { op: 'close' }).catch(() => {});
            return 1;
          } };
          return [await context.panels.update('plan', body), inner];
        }
        """,
    )
    worker.start_call()
    request = worker.receive()
    assert (request.method, request.params["body"]) == ("panels.update", {"op": "close", "x": 1})
    _reply(worker, request, 3)
    assert worker.receive().value == [3, "a getter can ask for nothing"]


@pytest.mark.parametrize("runtime", ["node", "python"])
def test_a_context_that_was_kept_can_ask_for_nothing(
    load: Callable[..., Any], runtime: str
) -> None:
    """What call A kept must not speak during call B."""
    sources = {
        "node": """
            let kept;
            export async function handler(args, context) {
              kept ??= context;
              try { return await kept.panels.update('plan', { op: 'close' }); }
              catch (error) { return error.code; }
            }
        """,
        "python": """
            kept = []
            def handler(args, context):
                kept.append(context)
                try:
                    return kept[0].panels.update('plan', {'op': 'close'})
                except Exception as exc:
                    return exc.code
        """,
    }
    worker = load(runtime, sources[runtime])
    worker.start_call()
    _reply(worker, worker.receive(), 1)
    assert worker.receive().value == 1
    assert worker.value() == "ended"
