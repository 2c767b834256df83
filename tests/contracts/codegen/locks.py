"""Locks that tests generate bindings from."""

from __future__ import annotations

from typing import Any

from raw_exec.contracts.codegen import Lock, Prompt, Tool

FETCH_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "minLength": 1, "description": 'Where */ """ it is'},
        "timeout": {"type": "integer", "minimum": 1, "maximum": 60},
    },
    "required": ["url"],
    "additionalProperties": False,
}
FETCH_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "status": {"type": "integer"}},
    "required": ["text"],
}
SEARCH_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "maxResults": {"type": "integer", "default": 5},
        "sort": {"type": "string", "enum": ["date", "rank"]},
        "site": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "area": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"country": {"type": "string"}},
                    "required": ["country"],
                },
                {
                    "type": "object",
                    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                    "required": ["lat", "lon"],
                },
            ]
        },
    },
    "required": ["query"],
}
AWKWARD_NAMES = (
    "class",
    "with-dash",
    "with_dash",
    "1st",
    "list",
    "model_config",
    "model_dump",
    "self",
    "cls",
    "é",
    "",
    " ",
    "a.b",
    "a/b~c",
    "_private",
    "__class__",
    "constructor",
    "toString",
    "copy",
    "json",
    "type",
    "id",
    "str",
    "Any",
    "Field",
    "None",
    "import",
    "default",
    "z",
    "x\ny",
    '"quoted"',
    "'single'",
    "back\\slash",
    "\u2028",
    "😀",
    "AcmeAwkwardToolInput",
    "input",
)
AWKWARD_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        name: {"type": "array", "items": {"type": "string"}, "title": name, "description": name}
        for name in AWKWARD_NAMES
    },
    "required": ["class", "with-dash"],
}
AWKWARD_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {name: inner for name, inner in AWKWARD_INPUT["properties"].items() if name},
}
EMPTY: dict[str, Any] = {"type": "object"}


def sample() -> Lock:
    """Return a project: shared contracts, two versions, awkward names, no pins, a draft."""
    fetch = Tool("fetch-page", "@acme/fetch-page", "1.2.0", FETCH_INPUT, "Fetch.", FETCH_OUTPUT)
    search = Tool(
        "web_search",
        "@vendor/web-search",
        "1.2.0",
        SEARCH_INPUT,
        "Search the web.",
        {"type": "array", "items": {"type": "string"}},
    )
    newer = Tool("search2", "@vendor/web-search", "2.0.0-draft.0", SEARCH_INPUT, draft=True)
    awkward = Tool("constructor", "@acme/awkward", "1.0.0", AWKWARD_INPUT, "A", AWKWARD_OUTPUT)
    empty = Tool("now", "@acme/now", "1.0.0", EMPTY)
    return Lock(
        (
            Prompt("@acme/daily-brief", "1.0.0", (fetch, search)),
            Prompt("@acme/other.one", "0.1.0", (fetch, newer, awkward, empty), draft=True),
            Prompt("@acme/plain", "1.0.0"),
        )
    )
