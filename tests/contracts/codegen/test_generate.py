"""What a generated file is called, contains and refuses, before anybody runs it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from contracts.codegen.locks import EMPTY, FETCH_INPUT, sample

from raw_exec.contracts.codegen import (
    BINDING_LANGUAGES,
    GenerationError,
    Lock,
    Prompt,
    Tool,
    generate,
)
from raw_exec.values import freeze

FETCH = Tool("fetch", "@acme/fetch-page", "1.0.0", FETCH_INPUT)


def _lock(*tools: Tool, ref: str = "@acme/p") -> Lock:
    return Lock((Prompt(ref, "1.0.0", tools),))


@pytest.mark.parametrize("language", BINDING_LANGUAGES)
def test_the_same_lock_gives_the_same_bytes_whatever_the_order_of_prompts(language: Any) -> None:
    """Deterministic output; frozen data is the same data."""
    wanted = generate(sample(), language)
    rng = random.Random(1)
    for _ in range(3):
        prompts = list(sample().prompts)
        rng.shuffle(prompts)
        prompts = [
            replace(
                prompt,
                tools=tuple(replace(t, input_schema=freeze(t.input_schema)) for t in prompt.tools),
            )
            for prompt in prompts
        ]
        assert generate(Lock(tuple(prompts)), language) == wanted
    # Comments in TypeScript say what authors wrote, in their letters.
    code = re.sub(r"/\*\*.*?\*/", "", wanted, flags=re.DOTALL)
    assert code.replace("must be within ±(2**53 - 1)", "").isascii()


@pytest.mark.parametrize("language", BINDING_LANGUAGES)
def test_type_names_come_from_the_reference_and_not_from_the_wire_name(language: Any) -> None:
    """Seed 3: one contract pinned twice is one type."""
    lock = Lock(
        (
            Prompt("@acme/a", "1.0.0", (replace(FETCH, wire_name="x"),)),
            Prompt("@acme/b", "1.0.0", (replace(FETCH, wire_name="y"),)),
        )
    )
    text = generate(lock, language)
    declared = (
        "class AcmeFetchPageToolInput"
        if language == "python"
        else ("export type AcmeFetchPageToolInput ")
    )
    assert text.count(declared) == 1
    assert "V1_0_0" not in text


@pytest.mark.parametrize("language", BINDING_LANGUAGES)
def test_two_versions_of_a_tool_give_every_type_a_suffix(language: Any) -> None:
    """Seed 3: no generated name depends on install order."""
    newer = replace(FETCH, wire_name="new", version="1.2.0-draft.0")
    text = generate(_lock(FETCH, newer), language)
    assert "AcmeFetchPageToolV1_0_0Input" in text
    assert "AcmeFetchPageToolV1_2_0_draft_0Input" in text
    assert "AcmeFetchPageToolInput" not in text


@pytest.mark.parametrize("language", BINDING_LANGUAGES)
def test_a_project_without_pins_has_no_tool_section(language: Any) -> None:
    """And none at all is a file that can be imported."""
    for lock in (Lock(()), Lock((Prompt("@acme/p", "1.0.0"),))):
        text = generate(lock, language)
        assert "ToolExecutionError" not in text
        assert "zod" not in text
        assert "pydantic" not in text


@pytest.mark.parametrize("language", BINDING_LANGUAGES)
@pytest.mark.parametrize(
    ("lock", "code"),
    [
        (_lock(Tool("a", "@acme/a-b", "1.0.0", EMPTY), Tool("b", "@acme/a_b", "1.0.0", EMPTY)),
         "name_collision"),
        (_lock(Tool("a.b", "@acme/a", "1.0.0", EMPTY)), "wire_name"),
        (_lock(Tool("a\n", "@acme/a", "1.0.0", EMPTY)), "wire_name"),
        (_lock(Tool("a", "@acme/a", "1.0.0", EMPTY), Tool("a", "@acme/b", "1.0.0", EMPTY)),
         "duplicate_wire_name"),
        (_lock(FETCH, replace(FETCH, wire_name="b", description="other")), "content_differs"),
        (Lock((Prompt("@acme/p", "1.0.0"), Prompt("@acme/p", "2.0.0"))), "duplicate_prompt"),
        (Lock((Prompt("@acme/a.b", "1.0.0"), Prompt("@acme/a-b", "1.0.0"))), "name_collision"),
        (Lock((Prompt("acme/p", "1.0.0"),)), "bad_ref"),
        (Lock((Prompt("@acme/p", '1"""\nimport os'),)), "bad_ref"),
        (_lock(Tool("a", "@acme/a */", "1.0.0", EMPTY)), "bad_ref"),
        (_lock(Tool("a", "@acme/a", "1.0.0", {"type": "object", "$ref": "x"})),
         "schema_outside_subset"),
        (_lock(Tool("a", "@acme/a", "1.0.0", EMPTY, "", {"not": {}})), "schema_outside_subset"),
    ],
)  # fmt: skip
def test_what_can_not_be_expressed_is_refused_before_a_line_is_written(
    language: Any, lock: Lock, code: str
) -> None:
    """Never a file that degrades in silence."""
    with pytest.raises(GenerationError) as caught:
        generate(lock, language)
    assert caught.value.code == code


def test_a_refused_schema_is_named_by_tool_and_pointer() -> None:
    """The consumer has to know whom to ask."""
    schema = {"type": "object", "properties": {"a": {"allOf": []}}}
    with pytest.raises(GenerationError) as caught:
        generate(_lock(Tool("t", "@vendor/t", "1.0.0", schema)), "python")
    assert caught.value.where == "@vendor/t@1.0.0"
    assert [one.pointer for one in caught.value.problems] == ["/properties/a"]
