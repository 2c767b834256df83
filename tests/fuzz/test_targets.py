"""Parsers that meet hostile bytes: accepted, or the one documented error."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .targets import TARGETS, seeds, words

EXAMPLES = int(os.environ.get("RAW_EXEC_FUZZ_EXAMPLES", "120"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
JSON_TARGETS = ["manifest", "hook", "config", "case", "rules", "result", "audit", "jsontext"]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8)
)


def mutate(data: bytes, seed: int, vocabulary: list[bytes], times: int) -> bytes:
    """Return bytes changed in a few places, the same for the same ``seed``."""
    chance = random.Random(seed)
    out = bytearray(data)
    for _ in range(times):
        at = chance.randrange(len(out) + 1)
        end = min(len(out), at + chance.choice((0, 1, 1, 4, 20)))
        kind = chance.randrange(4)
        if kind == 0:
            out[at:end] = chance.choice(vocabulary)
        elif kind == 1:
            out[at:end] = chance.randbytes(chance.randrange(5))
        elif kind == 2:
            out[at:end] = out[at:end] * chance.choice((0, 2, 3))
        elif out:
            start = chance.randrange(len(out))
            out[at:at] = out[start : start + chance.randrange(40)]
    return bytes(out)


def change(value: Any, chance: random.Random, pool: list[Any]) -> Any:
    """Return a JSON value with one part replaced, dropped or doubled."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        out = dict(value)
        key = chance.choice(list(out))
        action = chance.random()
        if action < 0.1:
            del out[key]
        elif action < 0.2:
            other = chance.choice(list(out))
            out[other] = out.pop(key)
        else:
            out[key] = change(out[key], chance, pool)
        return out
    if isinstance(value, list) and value and chance.random() < 0.85:
        at = chance.randrange(len(value))
        new = [change(value[at], chance, pool)] * chance.choice((0, 1, 1, 1, 2))
        return [*value[:at], *new, *value[at + 1 :]]
    return chance.choice(pool)


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_accepted(name: str) -> None:
    """A target that refuses everything would find nothing."""
    found = [TARGETS[name](seed) for seed in seeds(name)]
    assert any(value is not None for value in found)


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes_are_accepted_or_the_documented_error(name: str) -> None:
    """Fuzz rule (style §5, 18)."""

    @SETTINGS
    @given(st.binary(max_size=400))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_are_accepted_or_the_documented_error(name: str) -> None:
    """Fuzz rule, near what is valid, where parsers go wrong."""
    valid, vocabulary = seeds(name), words(name)

    @SETTINGS
    @given(st.integers(0, len(valid) - 1), st.integers(0, 2**32), st.integers(1, 6))
    def check(which: int, seed: int, times: int) -> None:
        TARGETS[name](mutate(valid[which], seed, vocabulary, times))

    check()


@pytest.mark.parametrize("name", JSON_TARGETS)
def test_documents_with_odd_parts_are_accepted_or_the_documented_error(name: str) -> None:
    """Fuzz rule, past the JSON parser: every type in every place."""
    valid = [json.loads(seed) for seed in seeds(name) if b"ud83d" not in seed]
    odd: list[Any] = [*("", "*", "a" * 300, "\0", "../x", "$CWD/..", "é\u202e"), *(0, -1, 1.5)]
    odd += [2**53, True, None, [], {}, [[]], {"": {}}, {"$ref": "#"}, {"pattern": "("}]
    odd += [word.decode("utf-8", "replace") for word in words(name)]

    @SETTINGS
    @given(
        st.integers(0, len(valid) - 1),
        st.integers(0, 2**32),
        st.integers(1, 4),
        st.lists(SCALARS, max_size=3),
    )
    def check(which: int, seed: int, times: int, more: list[Any]) -> None:
        chance, value = random.Random(seed), valid[which]
        for _ in range(times):
            value = change(value, chance, [*odd, *more])
        TARGETS[name](json.dumps(value).encode())

    check()


FOUND = {
    "a malformed number behind a refused value": ("jsontext", b"[NaN,1e]"),
    "the same behind an overflow": ("jsontext", b"[1e999,1-]"),
}
"""Inputs that once broke the rule."""


@pytest.mark.parametrize("name", FOUND)
def test_what_a_fuzzer_found_stays_found(name: str) -> None:
    """Every finding is kept as a case."""
    target, data = FOUND[name]
    TARGETS[target](data)
