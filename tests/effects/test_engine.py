"""What a descriptor may answer, and what happens when it does not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from raw_exec.effects import DescriptorFailed, EngineUnsupported, WasmEngine
from raw_exec.effects.ticker import Ticker
from raw_exec.values import freeze

VALIDATE = "export function validateArgs(args) {{ {} }}"
DESCRIBE = "export function describeEffects(args, {{ cwd }}) {{ {} }}"


def test_exports_name_the_functions_of_the_contract(load) -> None:
    """Ours: other exports are not descriptors, and a non-function is reported apart."""
    module = load(
        "export async function handler() {} export const validateArgs = 3;"
        "export const describeEffects = () => ({}); export function other() {}"
    )
    assert module.exports == {"handler", "describeEffects"}
    assert module.not_functions == {"validateArgs"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", None),
        ("return undefined", None),
        ("return null", None),
        ("return 'no'", "no"),
        ("return ''", ""),
        ("return 'none:x'", "none:x"),
        ("return 'é€😀\\u0000\\n'", "é€😀\0\n"),
        ("return args.n + args.s.length + ''", "8"),
    ],
)
def test_validate_args_gives_text_or_nothing(load, body: str, expected: str | None) -> None:
    """Seed 2: an error string or undefined."""
    assert load(VALIDATE.format(body)).validate_args({"n": 5, "s": "a€b"}) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return { files: [{ path: cwd + '/' + args.path, operation: 'write' }] }",
         {"files": [{"path": "/w/a", "operation": "write"}]}),
        ("return { a: undefined, b: [1, 1.5, -0, true, null, 'x'], c: {} }",
         {"b": [1, 1.5, 0, True, None, "x"], "c": {}}),
        ("return Object.assign(Object.create(null), { ['__proto__']: 1, toJSON: 'x' })",
         {"__proto__": 1, "toJSON": "x"}),
        ("return args", {"path": "a"}),
    ],
)  # fmt: skip
def test_describe_effects_gives_json(load, body: str, expected: object) -> None:
    """Seed 1: effects are data."""
    assert load(DESCRIBE.format(body)).describe_effects({"path": "a"}, cwd="/w") == expected


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (VALIDATE.format("return 1"), "bad_result"),
        (VALIDATE.format("return {}"), "bad_result"),
        (VALIDATE.format("return false"), "bad_result"),
        (VALIDATE.format("return Promise.resolve()"), "not_synchronous"),
        ("export async function validateArgs() {}", "not_synchronous"),
        (VALIDATE.format("return { then() {} }"), "not_synchronous"),
        (VALIDATE.format("const f = () => 1; f.then = f; return f"), "not_synchronous"),
        (VALIDATE.format("throw new Error('x')"), "threw"),
        (VALIDATE.format("throw null"), "threw"),
        (VALIDATE.format("throw Symbol('x')"), "threw"),
        (VALIDATE.format("throw { get message() { throw 1 }, toString() { throw 2 } }"), "threw"),
        (VALIDATE.format("return null.x"), "threw"),
        (VALIDATE.format("return 'x'.repeat(2 ** 21)"), "too_large"),
    ],
)
def test_another_answer_of_validate_args_fails(load, source: str, code: str) -> None:
    """Seed 1: a descriptor that returns a promise or throws stops the call."""
    module = load(source)
    with pytest.raises(DescriptorFailed) as caught:
        module.validate_args({})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return undefined", "bad_result"),
        ("return () => 1", "bad_result"),
        ("return { a: [0, NaN] }", "bad_result"),
        ("return { a: 10n }", "bad_result"),
        ("return { a: Symbol() }", "bad_result"),
        ("return { a: new Map() }", "bad_result"),
        ("return { a: new Date() }", "bad_result"),
        ("return new (class A {})", "bad_result"),
        ("return [undefined]", "bad_result"),
        ("const a = {}; a.a = a; return a", "bad_result"),
        ("let a = 1; for (let i = 0; i < 100; i++) a = [a]; return a", "bad_result"),
        ("return { get a() { throw new Error('late') } }", "threw"),
        ("return new Proxy({}, { ownKeys() { throw new Error('trap') } })", "threw"),
        ("return Promise.resolve({})", "not_synchronous"),
        ("return { a: 'x'.repeat(2 ** 20) }", "too_large"),
    ],
)
def test_another_answer_of_describe_effects_fails(load, body: str, code: str) -> None:
    """Ours: effects are JSON data, never a guess at what the plugin meant."""
    module = load(DESCRIBE.format(body))
    with pytest.raises(DescriptorFailed) as caught:
        module.describe_effects({}, cwd="/w")
    assert caught.value.code == code


def test_a_failure_names_the_function_and_shows_the_text_safely(load) -> None:
    """Ours: a plugin's text cannot draw on a terminal or flood a log."""
    module = load(
        VALIDATE.format("throw new TypeError('a\\u001b[31m\\u202e\\n' + 'b'.repeat(9e5))")
    )
    with pytest.raises(DescriptorFailed) as caught:
        module.validate_args({})
    message = caught.value.message
    assert message.startswith("validateArgs: TypeError: a\\u{1b}[31m\\u{202e} bbb")
    assert len(message) < 2100


BOMBS = {
    "empty loop": "for (;;);",
    "loop that catches": "for (;;) { try { for (;;); } catch {} }",
    "regex backtracking": "/^(a+)+$/.test('a'.repeat(40) + '!')",
    "sparse join": "const a = []; a.length = 2 ** 32 - 1; a.join()",
    "reverse of a huge array-like": "Array.prototype.reverse.call({ length: 2 ** 53 - 1 })",
    "huge indexOf": "const s = 'a'.repeat(2 ** 20); for (;;) (s + s).indexOf(s + 'b')",
    "sparse lastIndexOf": "Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)",
    "BigInt power": "let x = 3n; for (;;) x = x * x % (1n << 400000n) + 3n",
    "BigInt to text": "for (;;) String(7n ** 60000n)",
    "sort with a loop": "[3, 2, 1].sort(() => { for (;;); })",
    "getter": "return { get then() { for (;;); } }",
    "toString of an error": "throw { get message() { for (;;); } }",
    "proxy": "return new Proxy({}, { get() { for (;;); } })",
    "generator": "function* g() { for (;;) yield 1 } for (const x of g());",
    "Date text": "for (;;) new Date().toString()",
    "JSON": "const s = '[' + '1,'.repeat(1e5) + '1]'; for (;;) JSON.parse(s)",
    "microtasks and a loop": "queueMicrotask(() => { for (;;); }); for (;;);",
    "typed array": "const a = new Uint8Array(1e6); for (;;) a.lastIndexOf(1)",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS.keys())
def test_a_call_without_end_is_stopped_and_the_next_one_works(load, body: str) -> None:
    """Ours: the deadline holds inside every builtin, and costs only that call."""
    module = load(
        f"let calls = 0; export function validateArgs(args) {{"
        f" calls++; if (args.bomb) {{ {body} }} return String(calls) }}",
        deadline_ms=40,
    )
    assert module.validate_args({}) == "1"
    with pytest.raises(DescriptorFailed) as caught:
        module.validate_args({"bomb": True})
    assert caught.value.code == "deadline"
    assert module.validate_args({}) == "1"


MEMORY_BOMBS = {
    "strings": "let s = 'x'; for (;;) s += s;",
    "arrays": "const a = []; for (;;) a.push(new Array(1000).fill(1));",
    "buffer": "new Uint8Array(2 ** 30)",
    "many buffers": "const a = []; for (;;) a.push(new ArrayBuffer(2 ** 20));",
    "resizable buffer": "new ArrayBuffer(8, { maxByteLength: 2 ** 31 - 1 }).resize(2 ** 30)",
    "closures": "let f; for (;;) { const g = f; f = () => g; }",
    "BigInt": "let x = 3n; for (;;) x *= x;",
}


@pytest.mark.parametrize("body", MEMORY_BOMBS.values(), ids=MEMORY_BOMBS.keys())
def test_a_call_that_eats_memory_is_refused_and_the_next_one_works(load, body: str) -> None:
    """Ours: memory is bounded whatever allocates it."""
    module = load(
        f"export function validateArgs(args) {{ if (args.bomb) {{ {body} }} return 'ok' }}",
        deadline_ms=5000,
        memory_bytes=24 * 1024 * 1024,
    )
    with pytest.raises(DescriptorFailed) as caught:
        module.validate_args({"bomb": True})
    # Some builtins report a size they cannot have instead of running out.
    assert caught.value.code in ("memory", "threw")
    assert module.validate_args({}) == "ok"


DEEP = {
    "function": "const f = () => f() + 1; f()",
    "callback": "const f = () => [1].map(f); f()",
    "JSON.parse": "JSON.parse('['.repeat(1e6))",
    "eval": "eval('('.repeat(1e5))",
    "proxies": "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
    "many locals": "new Function(`var ${Array.from({ length: 3e4 }, (_, i) => 'a' + i)};"
    " return (function f() { return f() })()`)(); const g = () => g(); g()",
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP.keys())
def test_endless_recursion_is_stopped_and_the_next_call_works(load, body: str) -> None:
    """Ours: the guest's stack cannot run into its data unseen."""
    module = load(
        f"export function validateArgs(args) {{ if (args.bomb) {{ {body} }} return 'ok' }}"
    )
    with pytest.raises(DescriptorFailed) as caught:
        module.validate_args({"bomb": True})
    assert caught.value.code == "trap"
    assert module.validate_args({}) == "ok"


def test_recursion_of_ordinary_depth_still_works(load) -> None:
    """Ours: the pair of the test above; parsers recurse."""
    module = load(VALIDATE.format("const f = (n) => n ? 1 + f(n - 1) : 0; return String(f(500))"))
    assert module.validate_args({}) == "500"


def test_nothing_of_a_call_is_there_for_the_next(load) -> None:
    """Ours: a descriptor is a function of its arguments."""
    module = load(
        "let seen = []; const map = new Map();"
        "export function validateArgs(args) {"
        "  const before = [seen.length, map.size, typeof globalThis.leak, Array.prototype.x,"
        "    Math.random(), Object.isFrozen(args)];"
        "  seen.push(args); map.set(1, args); globalThis.leak = args; Array.prototype.x = 1;"
        "  queueMicrotask(() => { globalThis.late = 1 });"
        "  return JSON.stringify(before) }"
    )
    first = module.validate_args({"secret": 1})
    assert [module.validate_args({"secret": n}) for n in range(5)] == [first] * 5


def test_nothing_is_left_in_memory_after_a_call(load) -> None:
    """Ours: arguments of one principal are not even in dead memory for the next."""
    module = load(VALIDATE.format("globalThis.x = args.secret.split('').join(''); return x"))
    secret = "hunter2-" * 9000
    assert module.validate_args({"secret": secret}) == secret
    instance = module._instance
    assert instance is None or b"hunter2-" not in instance.read(0, instance.size)


def test_a_fork_has_the_same_exports_and_answers(load) -> None:
    """Ours: one loaded plugin serves several callers at once."""
    module = load("let n = 0; export function validateArgs() { return String(++n) }")
    fork = module.fork()
    assert (fork.exports, fork.validate_args({}), module.validate_args({})) == (
        module.exports, "1", "1",
    )  # fmt: skip
    fork.close()


def test_the_clock_is_the_hosts_and_stands_still_in_a_call(load) -> None:
    """Ours: dates can be validated, time cannot be measured."""
    module = load(
        VALIDATE.format(
            "const a = Date.now(), p = performance.now(); for (let i = 0; i < 1e4; i++);"
            "return [new Date(a).toISOString(), Date.now() - a, performance.now() - p].join()"
        )
    )
    assert module.validate_args({}) == "2024-01-02T03:04:05.000Z,0,0"


def test_a_mebibyte_of_arguments_arrives_whole(load) -> None:
    """Seed 1: descriptors get the original arguments, however long."""
    module = load(
        VALIDATE.format("return args.text.length + args.text.slice(-2) + args.text[0]"),
        deadline_ms=5000,
    )
    text = "é€x" * 350_000 + "ü!"
    arguments = freeze({"text": text})
    assert module.validate_args(arguments) == f"{len(text)}ü!é"
    assert module.validate_args(arguments) == f"{len(text)}ü!é"


def test_mutating_its_arguments_does_not_reach_the_caller(load) -> None:
    """Seed 1: arguments are never rewritten."""
    module = load(
        "export function validateArgs(args) { args.path = 'evil'; delete args.list[0] }"
        "export function describeEffects(args) { return args }"
    )
    arguments = freeze({"path": "a", "list": [1]})
    assert module.validate_args(arguments) is None
    assert module.describe_effects(arguments, cwd="/") == {"path": "a", "list": [1]}


def test_an_unknown_function_is_refused_without_a_crossing(load) -> None:
    """Ours: the caller looks at exports first."""
    with pytest.raises(DescriptorFailed, match="exports no function 'describeEffects'"):
        load(VALIDATE.format("")).describe_effects({}, cwd="/")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("throw new Error('at import')", "threw"),
        ("for (;;);", "deadline"),
        ("const f = () => f(); f()", "trap"),
        ("const a = []; for (;;) a.push(new Uint8Array(1e6))", "memory"),
        ("await Promise.reject(new RangeError('later'))", "threw"),
    ],
)
def test_a_module_that_fails_at_import_fails_to_load(load, source: str, code: str) -> None:
    """Ours: the same bounds hold at import."""
    with pytest.raises(DescriptorFailed) as caught:
        load(source, load_ms=200, memory_bytes=16 * 1024 * 1024)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "source",
    [
        "await new Promise(() => {}); export function validateArgs() {}",
        "export const x = nowhere;",
        "const fs = await import('node:fs'); export function validateArgs() {}",
        "import { readFileSync } from 'node:fs'; readFileSync('x')",
        "import { missing } from './b.mjs'",
        "export function validateArgs( {",
    ],
)
def test_what_the_engine_lacks_is_unsupported_and_not_a_failure(load, source: str) -> None:
    """design.md §3: a descriptor worker is tried instead."""
    with pytest.raises(EngineUnsupported) as caught:
        load(source, files={"b.mjs": "export const a = 1"})
    assert caught.value.message


def test_top_level_await_that_settles_loads(load) -> None:
    """Ours: the pair of the test above."""
    module = load(
        "const x = await Promise.resolve('yes'); export function validateArgs() { return x }"
    )
    assert module.validate_args({}) == "yes"


def test_calls_from_many_threads_do_not_mix(load) -> None:
    """Ours: the engine is thread-safe."""
    module = load(VALIDATE.format("return String(args.n)"))
    modules = [module, module.fork(), module.fork()]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: modules[n % 3].validate_args({"n": n}), range(300)))
    assert answers == [str(n) for n in range(300)]
    for fork in modules[1:]:
        fork.close()


def test_no_thread_is_left_after_close(engine_cache) -> None:
    """Ours: close means closed."""
    before = set(threading.enumerate())
    engine = WasmEngine.open(cache_dir=engine_cache)
    module = engine.load(
        {"index.mjs": b"export function validateArgs() { return 'a' }"},
        "index.mjs",
        deadline_ms=500,
    )
    assert module.validate_args({}) == "a"
    module.close()
    module.close()
    engine.close()
    engine.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(DescriptorFailed, match="closed"):
        module.validate_args({})


def test_the_ticker_sleeps_when_no_call_runs() -> None:
    """Ours: an idle runtime does not wake up."""
    ticks = threading.Semaphore(0)
    ticker = Ticker(ticks.release)
    try:
        assert not ticker.is_ticking
        ticker.start_call(8)
        assert ticks.acquire(timeout=30)
        assert ticker.is_ticking
        ticker.end_call()
        while ticker.is_ticking:
            assert ticks.acquire(timeout=30)
        ticker.start_call(8)
        assert ticks.acquire(timeout=30)
        ticker.end_call()
    finally:
        ticker.close()


@pytest.mark.parametrize(("deadline_ms", "ticks"), [(0, 2), (1, 2), (4, 2), (5, 3), (100, 26)])
def test_a_deadline_is_never_shorter_than_asked(deadline_ms: int, ticks: int) -> None:
    """Ours: the first tick may come at once, so there is one more."""
    ticker = Ticker(lambda: None)
    assert ticker.start_call(deadline_ms) == ticks
    ticker.end_call()
    ticker.close()
