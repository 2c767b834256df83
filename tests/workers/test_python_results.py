"""What a Python handler may return or raise, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PRELUDE = """
import collections, dataclasses, datetime, decimal, enum
class Text(str): pass
class Number(int): pass
class Mapping(dict): pass
class Items(list): pass
class Hostile:
    def __reduce__(self): raise SystemError("pickled")
    def __getattr__(self, name): raise SystemError("looked at")
    __class__ = dict
class Named(type):
    __name__ = property(lambda cls: 1 / 0)
@dataclasses.dataclass
class Data:
    a: int = 1
cycle = []; cycle.append([cycle])
deep = 1
for _ in range(65): deep = [deep]
deeper = 1
for _ in range(100_000): deeper = (deeper,)
"""


def returning(expression: str) -> str:
    return PRELUDE + f"\ndef handler(args, context):\n    return {expression}\n"


REFUSED = [
    ("float('nan')", "(root): is nan, which JSON cannot express"),
    ("[1, float('-inf')]", "/1: is -inf, which JSON cannot express"),
    ("2**53", "(root): is an integer beyond 2**53-1"),
    ("10**5000", "(root): is an integer beyond 2**53-1"),
    ("{1: 'a', '1': 'b'}", "(root): has a key of type int, not str"),
    ("{None: 1}", "(root): has a key of type NoneType, not str"),
    ("{Text('a'): 1}", "(root): has a key of type Text, not str"),
    ("{'b/c~d': [b'x']}", "/b~1c~0d/0: is of type bytes, which is not JSON data"),
    ("bytearray(4)", "(root): is of type bytearray, which is not JSON data"),
    ("{1, 2}", "(root): is of type set, which is not JSON data"),
    ("frozenset()", "(root): is of type frozenset, which is not JSON data"),
    ("range(3)", "(root): is of type range, which is not JSON data"),
    ("(x for x in [1])", "(root): is of type generator, which is not JSON data"),
    ("lambda: 1", "(root): is of type function, which is not JSON data"),
    ("int", "(root): is of type type, which is not JSON data"),
    ("Text('a')", "(root): is of type Text, which is not JSON data"),
    ("Number(1)", "(root): is of type Number, which is not JSON data"),
    ("[Mapping()]", "/0: is of type Mapping, which is not JSON data"),
    ("Items()", "(root): is of type Items, which is not JSON data"),
    ("Data()", "(root): is of type Data, which is not JSON data"),
    ("Hostile()", "(root): is of type Hostile, which is not JSON data"),
    ("Named('N', (), {})()", "(root): is of type N, which is not JSON data"),
    ("decimal.Decimal(1)", "(root): is of type Decimal, which is not JSON data"),
    ("datetime.date(2020, 1, 1)", "(root): is of type date, which is not JSON data"),
    ("collections.OrderedDict()", "(root): is of type OrderedDict, which is not JSON data"),
    ("enum.IntEnum('E', 'a').a", "(root): is of type E, which is not JSON data"),
    ("1j", "(root): is of type complex, which is not JSON data"),
    ("ValueError('x')", "(root): is of type ValueError, which is not JSON data"),
    ("{'a': '\\ud800'}", "/a: has a lone surrogate at character 0"),
    ("{'\\udfff': 1}", "/?: has a lone surrogate at character 0"),
    ("cycle", "/0/0: is part of a cycle that began at (root)"),
    ("deep", None),
    ("deeper", None),
]


@pytest.mark.parametrize(("expression", "message"), REFUSED)
def test_what_is_not_json_data_is_refused_by_pointer(
    python: Callable[..., Any], expression: str, message: str | None
) -> None:
    """V04, V18, V19, V21: exact types, nothing of the value's own code runs."""
    error = python(returning(expression)).failure().error
    assert error.kind == "not_serializable"
    if message is not None:
        assert error.message == message


ACCEPTED = [
    ("None", None),
    ("(1, (2, []))", [1, [2, []]]),
    ("-0.0", 0.0),
    ("[True, 1, 1.0, 2**53 - 1, 1 - 2**53]", [True, 1, 1.0, 2**53 - 1, 1 - 2**53]),
    ("{'': {'a': None}, '__proto__': 1}", {"": {"a": None}, "__proto__": 1}),
    ("deep[0]", None),
]


@pytest.mark.parametrize(("expression", "value"), ACCEPTED)
def test_json_data_is_accepted(python: Callable[..., Any], expression: str, value: Any) -> None:
    """The other half of the rule; depth 64 is inclusive."""
    got = python(returning(expression)).value()
    if expression == "deep[0]":
        value = 1
        for _ in range(64):
            value = [value]
    assert repr(got) == repr(value)


RAISED = [
    ("raise ValueError('no')", "ValueError", "no"),
    ("raise SystemExit(3)", "SystemExit", "3"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    ("raise GeneratorExit", "GeneratorExit", ""),
    ("raise BaseException('base')", "BaseException", "base"),
    ("raise Mute('x')", "Mute", ""),
    ("raise Quits('x')", "Quits", ""),
    ("raise StopIteration", "StopIteration", ""),
    ("raise 5", "TypeError", "exceptions must derive from BaseException"),
    ("raise ExceptionGroup('many', [KeyError(i) for i in range(100_000)])", "ExceptionGroup", None),
    ("import sys; sys.exit('bye')", "SystemExit", "bye"),
    ("return 1 / 0", "ZeroDivisionError", "division by zero"),
    ("raise Exception('\\ud800')", "Exception", "?"),
]
CLASSES = """
class Mute(Exception):
    def __str__(self): raise RuntimeError
class Quits(Exception):
    def __str__(self): raise SystemExit
"""


@pytest.mark.parametrize("prefix", ["def", "async def"])
@pytest.mark.parametrize(("statement", "name", "message"), RAISED)
def test_anything_raised_becomes_a_bounded_error(
    python: Callable[..., Any], prefix: str, statement: str, name: str, message: str | None
) -> None:
    """V23: mapped, and the worker lives on."""
    if prefix == "async def" and name == "StopIteration":
        name, message = "RuntimeError", "coroutine raised StopIteration"
    worker = python(f"""{CLASSES}
{prefix} handler(args, context):
    if args: return 1
    {statement}
""")
    event = worker.failure()
    assert (event.error.kind, event.error.name) == ("threw", name)
    if message is not None:
        assert event.error.message == message
    assert event.state.names == ()
    assert worker.value(1) == 1


def test_a_huge_cyclic_error_is_cut(python: Callable[..., Any]) -> None:
    """W24: 10 MB message, cause of itself, endless recursion."""
    worker = python("""
        def handler(args, context):
            a, b = ValueError("é" * 5_000_000), KeyError("b")
            a.__cause__, b.__cause__ = b, a
            def deeper(n): return deeper(n - 1) if n else (_ for _ in ()).throw(a)
            deeper(500)
    """)
    error = worker.failure().error
    assert len(error.message.encode()) <= 8192
    assert error.message.endswith(" bytes]")
    assert len(error.stack) <= 16384
    assert error.stack.endswith("…")
    names = []
    while error is not None:
        names.append(error.name)
        error = error.cause
    assert names == ["ValueError", "KeyError", "ValueError", "KeyError", "ValueError"]


def test_a_stack_names_the_plugin_and_not_the_worker(python: Callable[..., Any]) -> None:
    """Our choice: an author reads it."""
    worker = python("""
        def inner(): raise ValueError("x")
        def handler(args, context): inner()
    """)
    stack = worker.failure().error.stack.splitlines()
    assert [line.rsplit(", ", 2)[1:] for line in stack] == [
        ["line 3", "in handler"],
        ["line 2", "in inner"],
    ]


def test_the_context_is_what_the_contract_says(python: Callable[..., Any]) -> None:
    """Contract: both spellings, read-only."""
    worker = python("""
        def handler(args, context):
            refused = []
            for change in (lambda: setattr(context, "cwd", "/x"), lambda: delattr(context, "_cwd")):
                try: change()
                except AttributeError: refused.append(True)
            return [
                context.cwd, context.max_output_bytes, context.maxOutputBytes,
                context.tool_call_id, context.toolCallId, context.signal.aborted,
                context.signal.reason, context.signal.wait(0), refused,
            ]
    """)
    assert worker.value() == [
        *("/srv", 1234, 1234, "call-1", "call-1", False, None, False),
        [True, True],
    ]
