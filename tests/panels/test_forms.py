"""What may be asked in a form, and what counts as an answer (raw.panel/2, "form")."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.errors import Problem
from raw_exec.panels.errors import PanelError
from raw_exec.panels.forms import (
    MAX_ANSWER_BYTES,
    MAX_FIELDS,
    MAX_OPTIONS,
    MAX_TEXT_BYTES,
    AnswersInvalid,
    Form,
    FormField,
    FormOption,
    check_answers,
    check_form,
    encoded_bytes,
    smallest_answers,
)

TEXT = {"id": "name", "label": "Your name", "kind": "text"}
ONE = {
    "id": "colour",
    "label": "Colour",
    "kind": "single_select",
    "options": [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}],
}
MANY = {
    "id": "days",
    "label": "Days",
    "kind": "multi_select",
    "options": [{"id": day, "label": day.title()} for day in ("mon", "tue", "wed", "thu")],
}


def form(*fields: dict[str, Any], **more: Any) -> Form:
    return check_form({"id": "ask", "kind": "form", "fields": list(fields), **more}, "/blocks/0")


def problems_of(checked: Form, answers: object) -> list[str]:
    with pytest.raises(AnswersInvalid) as caught:
        check_answers(checked, answers)
    assert caught.value.code == "answers_invalid"
    return [problem.pointer for problem in caught.value.problems]


def test_a_form_gets_the_defaults_of_the_contract() -> None:
    """Spec: required by default; a multi select takes one to all of its options."""
    days = tuple(FormOption(day, day.title()) for day in ("mon", "tue", "wed", "thu"))
    assert form(TEXT, ONE, MANY, title="Hello") == Form(
        "ask",
        (
            FormField("name", "Your name", "text"),
            FormField(
                "colour",
                "Colour",
                "single_select",
                options=(FormOption("red", "Red"), FormOption("blue", "Blue")),
            ),
            FormField("days", "Days", "multi_select", options=days, min_selected=1, max_selected=4),
        ),
        "Hello",
    )


@pytest.mark.parametrize(
    "field",
    [
        TEXT,
        ONE,
        MANY,
        TEXT | {"multiline": True, "required": False, "max_bytes": 10},
        ONE | {"free_text": True, "max_bytes": 20},
        MANY | {"free_text": True, "min_selected": 2, "max_selected": 5},
    ],
)
def test_the_normalised_block_checks_to_the_same_form(field: dict[str, Any]) -> None:
    """A stored question must ask the same after a restart."""
    checked = form(field, fallback="ask me")
    assert check_form(checked.as_dict(), "") == checked


@pytest.mark.parametrize(
    ("block", "pointer"),
    [
        ("form", "/b"),
        ({"id": "a", "kind": "form"}, "/b"),
        ({"id": "a", "kind": "form", "fields": []}, "/b/fields"),
        ({"id": "a", "kind": "form", "fields": {}}, "/b/fields"),
        ({"id": "a", "kind": "table", "fields": [TEXT]}, "/b/kind"),
        ({"id": "bad id", "kind": "form", "fields": [TEXT]}, "/b/id"),
        ({"id": 5, "kind": "form", "fields": [TEXT]}, "/b/id"),
        ({"id": "a", "kind": "form", "fields": [TEXT], "x~/": 1}, "/b/x~0~1"),
        ({"id": "a", "kind": "form", "fields": [TEXT], "title": "\x1b[2J"}, "/b/title"),
        ({"id": "a", "kind": "form", "fields": [TEXT], "title": "x" * 81}, "/b/title"),
        ({"id": "a", "kind": "form", "fields": [TEXT], "fallback": "\x07"}, "/b/fallback"),
    ],
)
def test_a_malformed_block_is_refused_with_its_pointer(block: Any, pointer: str) -> None:
    """Contract: panel_invalid with a JSON Pointer."""
    with pytest.raises(PanelError) as caught:
        check_form(block, "/b")
    assert (caught.value.code, caught.value.pointer) == ("panel_invalid", pointer)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"kind": "number"}, "kind"),
        ({"kind": ["text"]}, "kind"),
        ({"label": ""}, "label"),
        ({"label": "a\nb"}, "label"),
        ({"label": "a\x9bb"}, "label"),
        ({"label": "\ud800"}, "label"),
        ({"label": "x" * 201}, "label"),
        ({"label": 1}, "label"),
        ({"required": 1}, "required"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_bytes": MAX_TEXT_BYTES + 1}, "max_bytes"),
        ({"max_bytes": True}, "max_bytes"),
        ({"multiline": "yes"}, "multiline"),
        ({"options": []}, "options"),
        ({"min_selected": 1}, "min_selected"),
        ({"placeholder": "x"}, "placeholder"),
    ],
)
def test_a_malformed_text_field_is_refused(change: dict[str, Any], where: str) -> None:
    """A misspelt limit must not be a missing one."""
    with pytest.raises(PanelError) as caught:
        form(TEXT | change)
    assert caught.value.pointer == f"/blocks/0/fields/0/{where}"


@pytest.mark.parametrize(
    ("base", "change", "where"),
    [
        (ONE, {"options": []}, "options"),
        (ONE, {"options": [{"id": "a"}]}, "options/0"),
        (ONE, {"options": ["a"]}, "options/0"),
        (ONE, {"options": [{"id": "a", "label": "A", "x": 1}]}, "options/0/x"),
        (ONE, {"options": [{"id": "a", "label": "A"}] * 2}, "options/1/id"),
        (ONE, {"options": [{"id": "a", "label": "A", "description": ""}]}, "options/0/description"),
        (
            ONE,
            {"options": [{"id": f"o{i}", "label": "O"} for i in range(MAX_OPTIONS + 1)]},
            "options",
        ),
        (ONE, {"max_bytes": 5}, "max_bytes"),
        (ONE, {"multiline": True}, "multiline"),
        (ONE, {"max_selected": 2}, "max_selected"),
        (MANY, {"min_selected": 5}, "min_selected"),
        (MANY, {"max_selected": 5}, "max_selected"),
        (MANY, {"max_selected": 0}, "max_selected"),
        (MANY, {"min_selected": 3, "max_selected": 2}, "min_selected"),
        (MANY, {"free_text": None}, "free_text"),
    ],
)
def test_a_malformed_select_is_refused(
    base: dict[str, Any], change: dict[str, Any], where: str
) -> None:
    """Contract: 1 to 32 options; counts that can be met."""
    with pytest.raises(PanelError) as caught:
        form(base | change)
    assert caught.value.pointer == f"/blocks/0/fields/0/{where}"


def test_eight_fields_are_possible_and_nine_are_not() -> None:
    """Contract: 1 to 8 fields."""
    fields = [TEXT | {"id": f"f{i}"} for i in range(MAX_FIELDS + 1)]
    assert len(form(*fields[:-1]).fields) == MAX_FIELDS
    with pytest.raises(PanelError, match="has 9 fields; between 1 and 8 are possible"):
        form(*fields)


def test_two_fields_of_one_id_are_refused() -> None:
    """One of the answers would be lost."""
    with pytest.raises(PanelError, match="duplicate field id 'name'"):
        form(TEXT, TEXT)


def test_answers_come_in_the_order_of_the_form() -> None:
    """Contract: ids of a multi select in declared order, whatever order they were sent in."""
    answers = check_answers(
        form(TEXT, ONE, MANY), {"days": ["wed", "mon"], "colour": "blue", "name": "Ada"}
    )
    assert list(answers.items()) == [("name", "Ada"), ("colour", "blue"), ("days", ["mon", "wed"])]


@pytest.mark.parametrize("blank", [{}, {"name": None}, {"name": ""}, {"name": " \t"}])
def test_a_required_text_needs_one_and_an_optional_one_may_be_left_out(blank: Any) -> None:
    """Contract: required by default."""
    assert problems_of(form(TEXT), blank) == ["/name"]
    assert check_answers(form(TEXT | {"required": False}), blank) == {}


@pytest.mark.parametrize("blank", [{}, {"days": None}, {"days": []}])
def test_a_required_selection_needs_one_and_an_optional_one_may_be_left_out(blank: Any) -> None:
    """An optional field asks for its minimum only when it is answered."""
    assert problems_of(form(MANY | {"min_selected": 2}), blank) == ["/days"]
    assert check_answers(form(MANY | {"required": False, "min_selected": 2}), blank) == {}


def test_a_required_selection_may_be_empty_when_the_form_says_so() -> None:
    """``min_selected: 0`` with required: answering with nothing is an answer."""
    checked = form(MANY | {"min_selected": 0})
    assert check_answers(checked, {"days": []}) == {"days": []}
    assert problems_of(checked, {}) == ["/days"]


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        (TEXT, 5, "/name"),
        (TEXT, ["a"], "/name"),
        (TEXT, "a\nb", "/name"),
        (TEXT, "a\rb", "/name"),
        (TEXT, "\x1b[31m", "/name"),
        (TEXT, "\x9b31m", "/name"),
        (TEXT | {"multiline": True}, "a\x00b", "/name"),
        (TEXT | {"multiline": True}, "a\rb", "/name"),
        (TEXT | {"max_bytes": 3}, "ää", "/name"),
        (TEXT, "x" * (MAX_TEXT_BYTES + 1), "/name"),
        (TEXT, "\ud800", "/name"),
        (ONE, "green", "/colour"),
        (ONE, ["red"], "/colour"),
        (ONE, True, "/colour"),
        (ONE | {"free_text": True, "max_bytes": 3}, "green", "/colour"),
        (MANY, "mon", "/days"),
        (MANY, ["mon", "sun"], "/days/1"),
        (MANY, ["mon", "mon"], "/days/1"),
        (MANY, [1], "/days/0"),
        (MANY, ["mon"] * 100, "/days"),
        (MANY | {"max_selected": 1}, ["mon", "tue"], "/days"),
        (MANY | {"min_selected": 2}, ["mon"], "/days"),
        (MANY | {"free_text": True}, ["later", "never"], "/days/1"),
        (MANY | {"free_text": True}, [" "], "/days/0"),
        (MANY | {"free_text": True, "max_bytes": 3}, ["later"], "/days/0"),
        (MANY | {"free_text": True, "max_selected": 1}, ["mon", "later"], "/days"),
    ],
)
def test_an_answer_that_does_not_fit_its_field_is_refused(
    field: dict[str, Any], value: Any, pointer: str
) -> None:
    """Every limit of the contract, with the pointer into the answers."""
    assert problems_of(form(field), {field["id"]: value}) == [pointer]


def test_every_problem_is_reported_at_once() -> None:
    """A person corrects a form in one go."""
    with pytest.raises(AnswersInvalid) as caught:
        check_answers(form(TEXT, ONE), {"colour": "rad", "nane": "x"})
    assert caught.value.problems == (
        Problem("/nane", "the form has no field 'nane'; did you mean 'name'?"),
        Problem("/name", "needs an answer"),
        Problem("/colour", "'rad' is no option; did you mean 'red'?"),
    )


@pytest.mark.parametrize("answers", [None, [], "x", 5])
def test_answers_that_are_no_object_are_refused(answers: object) -> None:
    """They come from a client, which may send anything."""
    assert problems_of(form(TEXT), answers) == [""]


def test_free_text_is_taken_where_the_form_allows_it() -> None:
    """The pair of "is no option": a text of one's own, which is last in a multi select."""
    free = {"free_text": True}
    assert check_answers(form(ONE | free), {"colour": "green"}) == {"colour": "green"}
    assert check_answers(form(ONE | free), {"colour": "red"}) == {"colour": "red"}
    days = check_answers(form(MANY | free), {"days": ["later", "tue", "mon"]})
    assert days == {"days": ["mon", "tue", "later"]}


def test_a_multiline_text_keeps_its_lines() -> None:
    """Browsers send CRLF, which means the same."""
    checked = form(TEXT | {"multiline": True})
    assert check_answers(checked, {"name": "a\r\nb\n\tc"}) == {"name": "a\nb\n\tc"}


def test_answers_over_16_kib_in_all_are_refused() -> None:
    """Contract: each text may have 8 KiB, all answers together 16 KiB."""
    fields = [TEXT | {"id": f"f{i}"} for i in range(3)]
    checked = form(*fields)
    text = "x" * (MAX_TEXT_BYTES - 64)
    assert problems_of(checked, {"f0": text, "f1": text, "f2": "x" * 200}) == [""]
    fitting = check_answers(checked, {"f0": text, "f1": text, "f2": "x"})
    assert encoded_bytes(fitting) <= MAX_ANSWER_BYTES


FIELDS = st.builds(
    lambda kind, required, free, options, low: (
        {"id": "f", "label": "F", "kind": kind, "required": required}
        | ({"free_text": free, "options": options} if kind != "text" else {})
        | ({"min_selected": min(low, len(options))} if kind == "multi_select" else {})
    ),
    st.sampled_from(["text", "single_select", "multi_select"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.from_regex(r"[a-z0-9_]{1,5}", fullmatch=True), min_size=1, unique=True).map(
        lambda ids: [{"id": name, "label": "L"} for name in ids[:MAX_OPTIONS]]
    ),
    st.integers(0, 4),
)


@given(FIELDS)
def test_the_smallest_answers_are_valid(field: dict[str, Any]) -> None:
    """The budget rule relies on it: they are accepted as they are."""
    checked = form(field)
    smallest = smallest_answers(checked)
    assert check_answers(checked, smallest) == {
        key: value if isinstance(value, str) else check_answers(checked, smallest)[key]
        for key, value in smallest.items()
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(JSON)
def test_any_block_is_accepted_or_refused_with_the_documented_error(block: Any) -> None:
    """Fuzz rule: any other exception is a bug."""
    for value in (block, {"id": "a", "kind": "form", "fields": [block]}):
        try:
            check_form(value, "")
        except PanelError:
            pass  # refused


@given(JSON, FIELDS)
def test_any_answer_is_accepted_or_refused_with_the_documented_error(
    answer: Any, field: dict[str, Any]
) -> None:
    """Fuzz rule, and what is accepted is accepted again."""
    checked = form(field)
    for answers in (answer, {"f": answer}):
        try:
            once = check_answers(checked, answers)
        except AnswersInvalid:
            continue
        assert check_answers(checked, once) == once
