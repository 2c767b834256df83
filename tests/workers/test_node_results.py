"""What a JavaScript handler may return or throw, and what becomes of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from raw_exec.wire import Result, WorkerFailure


def returning(expression: str) -> str:
    return f"export async function handler(args, context) {{ return {expression}; }}"


REFUSED = [
    ("undefined", "(root): is undefined, which is not JSON data"),
    ("() => 1", "(root): is a function, which is not JSON data"),
    ("class A {}", "(root): is a function, which is not JSON data"),
    ("Symbol('x')", "(root): is a symbol, which is not JSON data"),
    ("1n", "(root): is a bigint, which is not JSON data"),
    ("NaN", "(root): is NaN, which JSON cannot express"),
    ("[1, -Infinity]", "/1: is -Infinity, which JSON cannot express"),
    ("{ a: { 'b/c~d': [undefined] } }", "/a/b~1c~0d/0: is undefined, which is not JSON data"),
    ("[1, , 3]", "/1: is undefined, which is not JSON data"),
    ("{ f() {} }", "/f: is a function, which is not JSON data"),
    ("new Date(0)", "(root): is a Date, which is not JSON data"),
    ("new Date(NaN)", "(root): is a Date, which is not JSON data"),
    ("/x/", "(root): is a RegExp, which is not JSON data"),
    ("new Map()", "(root): is a Map, which is not JSON data"),
    ("[new Set()]", "/0: is a Set, which is not JSON data"),
    ("new Uint8Array(4)", "(root): is a Uint8Array, which is not JSON data"),
    ("new ArrayBuffer(4)", "(root): is a ArrayBuffer, which is not JSON data"),
    ("Buffer.alloc(5e6)", "(root): is a Uint8Array, which is not JSON data"),
    ("new Error('x')", "(root): is a Error, which is not JSON data"),
    (
        "new (class A {})()",
        "(root): is a object with a prototype of its own, which is not JSON data",
    ),
    ("new (class A extends Array {})()", None),
    ("new String('x')", "(root): is a String, which is not JSON data"),
    ("new Number(1)", "(root): is a Number, which is not JSON data"),
    ("(async function* () {})()", "(root): is a AsyncGenerator, which is not JSON data"),
    ("(function* () {})()", "(root): is a Generator, which is not JSON data"),
    ("'\\ud800'", "(root): has a lone surrogate"),
    ("{ a: '\\udfff'.padEnd(100) }", "/a: has a lone surrogate"),
    ("{ ['\\ud800']: 1 }", "/\ufffd: has a lone surrogate"),
    ("{ get a() { throw new Error('no') } }", "/a: threw while it was read: no"),
    ("new Proxy({}, { ownKeys() { throw new Error('no') } })", None),
    ("Object.create({})", None),
    ("globalThis", None),
    ("context.signal", None),
    ("{ [Symbol.toStringTag]: '\\ud800', __proto__: Date.prototype }", None),
    ("{ [Symbol.toStringTag]: 'x'.repeat(4e7), __proto__: Date.prototype }", None),
    ("Array(60).fill().reduce((a) => ({ ['k'.repeat(300)]: a }), () => 1)", None),
    ("Array(60).fill().reduce((a) => ({ ['é'.repeat(200)]: [a] }), 1n)", None),
    ("Array(65).fill().reduce((a) => ({ ['k'.repeat(150)]: a }), 1)", None),
    (
        "((a) => { a.last.a = a.top; return a.top; })(Array(60).fill().reduce("
        "({ top, last }) => ({ top: { ['k'.repeat(150)]: top }, last }), "
        "((a) => ({ top: a, last: a }))({})))",
        None,
    ),
]


@pytest.mark.parametrize(("expression", "message"), REFUSED)
def test_what_is_not_json_data_is_refused_by_pointer(
    node: Callable[..., Any], expression: str, message: str | None
) -> None:
    """V02 to V16: an explicit rule for each, never a silent null."""
    event = node(returning(expression)).failure()
    assert event.error.kind == "not_serializable"
    assert len(event.error.message.encode()) <= 8192
    if message is not None:
        assert event.error.message == message


ACCEPTED = [
    ("null", None),
    ("-0", 0),
    ("[-0, 0.5]", [0, 0.5]),
    ("{ a: undefined, b: 1 }", {"b": 1}),
    ("Object.assign(Object.create(null), { a: 1 })", {"a": 1}),
    ('JSON.parse(\'{"__proto__":{"admin":1}}\')', {"__proto__": {"admin": 1}}),
    ("{ toJSON: undefined, a: 1 }", {"a": 1}),
    ("Object.freeze([Object.freeze({ a: 1 })])", [{"a": 1}]),
    ("2 ** 53 - 1", 2**53 - 1),
    ("2 ** 70", float(2**70)),
    ("{ [Symbol('x')]: 1, a: 1 }", {"a": 1}),
    ("Object.fromEntries(Array.from({ length: 70000 }, (_, i) => ['k' + i, 1]))", None),
    ("Object.fromEntries(Array.from({ length: 99 }, (_, i) => [i, undefined]))", {}),
]


@pytest.mark.parametrize(("expression", "value"), ACCEPTED)
def test_json_data_is_accepted(node: Callable[..., Any], expression: str, value: Any) -> None:
    """V04, V10: the other half of the rule."""
    worker = node(returning(expression))
    got = worker.value()
    if value is None and got is not None:
        value = {f"k{i}": 1 for i in range(70_000)}
    assert repr(got) == repr(value)


def test_to_json_is_never_called(node: Callable[..., Any]) -> None:
    """V06: it could throw, lie or do I/O."""
    worker = node("""
        let calls = 0;
        Object.prototype.toJSON = function () { calls++; return 'replaced'; };
        export function handler() { return { value: [{ a: 1 }], calls }; }
    """)
    assert worker.value() == {"value": [{"a": 1}], "calls": 0}


def test_a_getter_is_read_exactly_once(node: Callable[..., Any]) -> None:
    """Our choice: no second look that could see something else."""
    worker = node("""
        let reads = 0;
        export function handler(args) {
          return args ? reads : { get a() { return ++reads === 1 ? 'first' : undefined; } };
        }
    """)
    assert worker.value() == {"a": "first"}
    assert worker.value(1) == 1


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ("const a = {}; a.a = a;", "/a: is part of a cycle that began at (root)"),
        ("const a = []; a[0] = [a];", "/0/0: is part of a cycle that began at (root)"),
        ("const b = {}; b.b = b; b.c = b; const a = { x: b };", None),
        ("let a = 1; for (let i = 0; i < 65; i++) a = [a];", None),
        ("let a = 1; for (let i = 0; i < 1e5; i++) a = { a };", None),
    ],
)
def test_cycles_and_depth_are_found_in_bounded_time(
    node: Callable[..., Any], setup: str, message: str | None
) -> None:
    """V01, V13: with the path of what repeats."""
    worker = node(f"export function handler() {{ {setup} return a; }}")
    error = worker.failure().error
    assert error.kind == "not_serializable"
    if message is not None:
        assert error.message == message


def test_a_value_64_deep_is_accepted(node: Callable[..., Any]) -> None:
    """V13: the limit is inclusive."""
    value: Any = 1
    for _ in range(64):
        value = [value]
    source = (
        "export function handler() { let a = 1; for (let i = 0; i < 64; i++) a = [a]; return a; }"
    )
    assert node(source).value() == value


def test_shared_parts_that_explode_are_stopped(node: Callable[..., Any]) -> None:
    """V13: a graph of 40 levels has 2**40 leaves."""
    worker = node("""
        export function handler() {
          let a = [undefined];
          a = {};
          for (let i = 0; i < 40; i++) a = { x: a, y: a };
          return a;
        }
    """)
    assert worker.failure().error.kind == "too_large"


def test_a_proxy_with_a_million_names_is_counted_before_each_is_asked(
    node: Callable[..., Any],
) -> None:
    """V06: its traps are the plugin's code, called once for every name."""
    worker = node("""
        let asked = 0;
        const many = new Proxy({}, {
          ownKeys: () => Array.from({ length: 1e6 }, (_, i) => 'k' + i),
          getOwnPropertyDescriptor() {
            asked++;
            return { value: 1, enumerable: true, configurable: true };
          },
        });
        export function handler(args) { return args ? asked : many; }
    """)
    assert worker.failure().error.kind == "too_large"
    assert worker.value(True) == 0


def test_a_small_proxy_is_a_value_like_any_other(node: Callable[..., Any]) -> None:
    """The other half: what it shows is what is sent."""
    worker = node("export const handler = () => new Proxy({ a: [1], b: { c: 2 } }, {});")
    assert worker.value() == {"a": [1], "b": {"c": 2}}


def test_a_thenable_is_awaited_once(node: Callable[..., Any]) -> None:
    """V08: as await does it."""
    worker = node("""
        let reads = 0;
        export function handler(args) {
          if (args) return reads;
          return { get then() { reads++; return (resolve) => { resolve(7); resolve(8); }; } };
        }
    """)
    assert worker.value() == 7
    assert worker.value(1) == 1


def test_a_handler_need_not_be_asynchronous(node: Callable[..., Any]) -> None:
    """Contract: async or sync."""
    assert node("export function handler(args) { return args.a + 1; }").value({"a": 1}) == 2


THROWN = [
    ("new RangeError('no')", "RangeError", "no"),
    ("undefined", "undefined", "undefined"),
    ("null", "null", "null"),
    ("42", "number", "42"),
    ("10n", "bigint", "10"),
    ("Symbol('x')", "symbol", "Symbol(x)"),
    ("'text'", "string", "text"),
    ("new Proxy({}, { get() { throw 1 } })", "Error", ""),
    ("new Proxy(class {}, { get() { throw 1 } })", "Error", ""),
    ("Object.freeze(Object.assign(new Error('m'), { name: 'Mine' }))", "Mine", "m"),
    ("Object.create(null)", "Error", ""),
    (
        "{ get message() { throw 1 }, get stack() { throw 2 }, get name() { return 5 } }",
        "Error",
        "",
    ),
    ("Object.assign(new Error('\\ud800'), { name: 'A' })", "A", "\ufffd"),
]


@pytest.mark.parametrize(("expression", "name", "message"), THROWN)
def test_anything_thrown_becomes_a_bounded_error(
    node: Callable[..., Any], expression: str, name: str, message: str
) -> None:
    """V22: normalised, and the worker lives on."""
    worker = node(
        f"export async function handler(args) {{ if (args) return 1; throw {expression}; }}"
    )
    event = worker.failure()
    assert (event.error.kind, event.error.name, event.error.message) == ("threw", name, message)
    assert event.state.names == ()
    assert worker.value(1) == 1


def test_a_huge_cyclic_error_is_cut(node: Callable[..., Any]) -> None:
    """W24: 10 MB message, 10 MB stack, cause of itself."""
    worker = node("""
        export function handler() {
          const e = new Error('é'.repeat(5e6));
          e.stack = 's'.repeat(1e7);
          e.cause = e;
          throw e;
        }
    """)
    error = worker.failure().error
    assert len(error.message.encode()) <= 8192
    assert len(error.stack) <= 16384
    assert error.message.startswith("éé")
    assert error.message.endswith(" bytes]")
    assert "… [truncated " in error.stack
    assert error.cause is None


def test_causes_are_kept_four_deep(node: Callable[..., Any]) -> None:
    """Contract: cause depth at most 4, longer cycles cut."""
    worker = node("""
        export function handler() {
          const a = new Error('a'), b = new Error('b', { cause: a });
          a.cause = b;
          throw b;
        }
    """)
    error: WorkerFailure | None = worker.failure().error
    names = []
    while error is not None:
        names.append(error.message)
        error = error.cause
    assert names == ["b", "a", "b", "a", "b"]


def test_the_context_is_what_the_contract_says(node: Callable[..., Any]) -> None:
    """Contract: four fields, frozen, and a real AbortSignal."""
    worker = node(
        textwrap.dedent("""
        'use strict';
        export function handler(args, context) {
          let frozen = false;
          try { context.cwd = '/x'; } catch { frozen = true; }
          return {
            frozen,
            keys: Object.keys(context),
            cwd: context.cwd,
            bytes: context.maxOutputBytes,
            id: context.toolCallId,
            real: context.signal instanceof AbortSignal && context.signal === context.signal,
            aborted: context.signal.aborted,
          };
        }
    """)
    )
    assert worker.value() == {
        "frozen": True,
        "keys": ["cwd", "signal", "vars", "panels", "interactions", "maxOutputBytes", "toolCallId"],
        "cwd": "/srv",
        "bytes": 1234,
        "id": "call-1",
        "real": True,
        "aborted": False,
    }


def test_a_large_result_before_an_exit_is_whole(node: Callable[..., Any]) -> None:
    """P10: a complete result, then the end."""
    worker = node("""
        export function handler() {
          setTimeout(() => process.exit(0), 0);
          return 'x'.repeat(5e6);
        }
    """)
    worker.start_call()
    try:
        event = worker.receive()
    except EOFError:
        # The timer may have been due first: then there is no result at all, not half of one.
        assert worker.connection.surplus_bytes == 0
    else:
        assert isinstance(event, Result)
        assert event.value == "x" * 5_000_000
