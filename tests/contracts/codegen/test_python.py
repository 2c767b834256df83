"""Python bindings at run time: definitions, dispatch, awkward names."""

from __future__ import annotations

import gc
import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from contracts.codegen.conftest import load_python
from contracts.codegen.locks import AWKWARD_NAMES, FETCH_INPUT, FETCH_OUTPUT, sample

from raw_exec.contracts.codegen import Lock, Prompt, Tool


@pytest.fixture(scope="module")
def bindings(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Return the bindings of the sample project, imported."""
    return load_python(sample(), tmp_path_factory.mktemp("bindings"))


@pytest.fixture
def brief(bindings: ModuleType) -> Any:
    """Return the prompt that pins two published tools."""
    return bindings.get_prompt("@acme/daily-brief")


@pytest.fixture
def other(bindings: ModuleType) -> Any:
    """Return the draft prompt, which pins awkward tools."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bindings.get_prompt("@acme/other.one")


def _tools(**more: Any) -> dict[str, Any]:
    return {
        "fetch-page": lambda value: {"text": value.url},
        "web_search": lambda value: [value.query],
        **more,
    }


def test_definitions_are_in_pin_order_with_the_schema_as_it_was_written(brief: Any) -> None:
    """Seed 3: { name, description, input_schema }; what is returned is told as well."""
    first, second = brief.tool_defs()
    returns = json.dumps(FETCH_OUTPUT, sort_keys=True, separators=(",", ":"))
    assert first == {
        "name": "fetch-page",
        "description": f"Fetch.\n\nReturns JSON matching: {returns}",
        "input_schema": FETCH_INPUT,
    }
    assert second["name"] == "web_search"


def test_definitions_can_be_changed_without_touching_later_ones(brief: Any) -> None:
    """An SDK that edits what it is handed spoils nothing."""
    brief.tool_defs()[0]["input_schema"]["type"] = "spoilt"
    assert brief.tool_defs()[0]["input_schema"] == FETCH_INPUT


def test_valid_arguments_reach_the_implementation_as_a_model(brief: Any) -> None:
    """Seed 3: success carries the JSON-encoded result."""
    assert brief.dispatch_tool("fetch-page", {"url": "é", "timeout": 3.0}, _tools()) == {
        "success": True,
        "content": '{"text":"é"}',
    }


@pytest.mark.parametrize("name", ["nope", "search2", "get", "__class__", ""])
def test_a_name_that_is_not_pinned_is_unknown(brief: Any, name: str) -> None:
    """Only aliases count, whatever the bindings object has."""
    out = brief.dispatch_tool(name, {}, _tools(nope=print, get=print))
    assert (out["success"], out["code"]) == (False, "unknown-tool")


def test_a_pinned_tool_without_an_implementation_is_unknown(brief: Any) -> None:
    """Type checkers refuse it before; at run time the model is told."""
    assert brief.dispatch_tool("fetch-page", {"url": "u"}, {})["code"] == "unknown-tool"


def test_bad_arguments_are_told_by_pointer_and_nothing_is_called(brief: Any) -> None:
    """Seed 3: arguments are written by the model, so they are checked."""
    called: list[Any] = []
    out = brief.dispatch_tool(
        "fetch-page", {"url": "", "timeout": 61, "x": 1}, _tools(**{"fetch-page": called.append})
    )
    assert (out["success"], out["code"], called) == (False, "input-validation", [])
    places = [line.split(":")[0] for line in out["error"].split("; ")]
    assert sorted(places) == ["/timeout", "/url", "/x"]


def test_what_the_implementation_says_goes_to_the_model(brief: Any, bindings: ModuleType) -> None:
    """Seed 3: only ToolExecutionError is an execution failure; subclasses are."""

    class Gone(bindings.ToolExecutionError):  # type: ignore[name-defined,misc]
        pass

    def fail(_input: Any) -> None:
        raise Gone("404")

    out = brief.dispatch_tool("fetch-page", {"url": "u"}, _tools(**{"fetch-page": fail}))
    assert out == {"success": False, "error": "404", "code": "execution"}


def test_any_other_exception_passes_through(brief: Any) -> None:
    """Seed 3: a bug propagates with its stack."""
    with pytest.raises(ZeroDivisionError):
        brief.dispatch_tool("fetch-page", {"url": "u"}, _tools(**{"fetch-page": lambda _: 1 / 0}))
    with pytest.raises(TypeError):
        brief.dispatch_tool("fetch-page", {"url": "u"}, _tools(**{"fetch-page": lambda _: {1}}))


async def test_async_implementations_run_on_any_loop(brief: Any, bindings: ModuleType) -> None:
    """Sync ones too, through the same method."""

    async def fetch(value: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if value.url == "bad":
            raise bindings.ToolExecutionError("no")
        return {"text": value.url}

    tools = _tools(**{"fetch-page": fetch})
    with trio.fail_after(5):
        assert (await brief.dispatch_tool_async("fetch-page", {"url": "u"}, tools))["success"]
        assert (await brief.dispatch_tool_async("web_search", {"query": "q"}, tools))["success"]
        out = await brief.dispatch_tool_async("fetch-page", {"url": "bad"}, tools)
    assert out["code"] == "execution"


def test_an_async_implementation_in_the_sync_method_is_a_clear_error(brief: Any) -> None:
    """And leaves no coroutine that was never awaited."""

    async def fetch(_input: Any) -> Any:
        return {}

    with pytest.raises(TypeError, match="dispatch_tool_async"):
        brief.dispatch_tool("fetch-page", {"url": "u"}, _tools(**{"fetch-page": fetch}))
    gc.collect()


def test_every_awkward_name_arrives_under_an_attribute_and_leaves_under_its_own(
    other: Any,
) -> None:
    """Class, with-dash, list, model_config, 1st and worse."""
    args = {name: [name] for name in AWKWARD_NAMES}
    seen: list[Any] = []
    out = other.dispatch_tool("constructor", args, {"constructor": lambda i: seen.append(i) or i})
    assert json.loads(out["content"]) == args
    (value,) = seen
    assert (value.class_, value.list_, value.type, value.with_dash_2, value.with_dash) == (
        ["class"],
        ["list"],
        ["type"],
        ["with-dash"],
        ["with_dash"],
    )


def test_a_tool_without_properties_takes_anything_that_is_an_object(other: Any) -> None:
    """A freshly created tool has such a schema; the public generator's file does not import."""
    tools = {"now": lambda value: value}
    assert other.dispatch_tool("now", {"a": [1]}, tools)["content"] == '{"a":[1]}'
    assert other.dispatch_tool("now", [], tools)["code"] == "input-validation"


def test_a_prompt_without_pins_has_no_dispatch(bindings: ModuleType) -> None:
    """Seed 3: at run time as in its type."""
    plain = bindings.get_prompt("@acme/plain")
    assert not hasattr(plain, "dispatch_tool")
    assert not hasattr(plain, "tool_defs")
    with pytest.raises(LookupError):
        bindings.get_prompt("@acme/nope")


def test_drafts_are_warned_of(bindings: ModuleType) -> None:
    """Seed 3: a draft contract can change without the prompt's version moving."""
    with pytest.warns(UserWarning, match="draft") as seen:
        bindings.get_prompt("@acme/other.one")
    texts = [str(one.message) for one in seen]
    assert len(texts) == 2
    assert "search2" in texts[1]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        "\ud800",
        {"\ud800": 1},
        {"__proto__": 1},
        {1: 2},
        object(),
        b"x",
        ("tuple",),
    ],
)
def test_what_no_json_text_says_is_refused(other: Any, value: Any) -> None:
    """Whoever calls with something else than decoded JSON is told, not the implementation."""
    out = other.dispatch_tool("now", {"a": value}, {"now": lambda _: None})
    assert out["code"] == "input-validation"


def test_hostile_nesting_is_an_answer_and_no_crash(other: Any) -> None:
    """A model can write a thousand brackets."""
    value: Any = 1
    for _ in range(5000):
        value = [value]
    out = other.dispatch_tool("now", {"a": value}, {"now": lambda _: None})
    assert out["code"] == "input-validation"


def test_texts_of_a_contract_never_become_code(tmp_path: Path) -> None:
    """Security: descriptions and names stand in literals, whatever they hold."""
    evil = '"""\nraise SystemExit\n\'\'\' */ ${1} \\" \u2028'
    schema = {
        "type": "object",
        "description": evil,
        "properties": {
            evil: {"description": evil, "enum": [evil]},
            "o": {"type": "object", "description": evil, "properties": {evil: {}}},
        },
    }
    tool = Tool("t", "@acme/t", "1.0.0", schema, evil, schema)
    module = load_python(Lock((Prompt("@acme/p", "1.0.0", (tool,)),)), tmp_path)
    out = module.get_prompt("@acme/p").dispatch_tool("t", {evil: evil}, {"t": lambda i: i})
    assert json.loads(out["content"]) == {evil: evil}
