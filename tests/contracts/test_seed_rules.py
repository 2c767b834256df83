"""What seed 3's tables say beyond one named check: what freezes, what reaches a model, who sees."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.contracts import service as registry
from raw_exec.contracts.client.embedded import EmbeddedRegistry
from raw_exec.contracts.codegen import BINDING_LANGUAGES, Lock, Prompt, generate
from raw_exec.contracts.model import FileFormat, Provider, Visibility
from raw_exec.contracts.project.content import content_of

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
OWN = {"tool_workspace": "acme", "tool_name": "t"}

TOOL_CHANGES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "model description": (registry.update_tool_version, (), {"model_description": "new"}),
    "input schema": (registry.update_tool_version, (), {"input_schema": {"type": "object"}}),
    "output schema": (registry.update_tool_version, (), {"output_schema": {}}),
    "no output schema": (registry.update_tool_version, (), {"output_schema": None}),
    "readme": (registry.update_tool_version, (), {"readme": "new"}),
    "metadata": (registry.update_tool_version, (), {"metadata": {}}),
    "metadata key": (registry.patch_tool_metadata, (), {"set": {"a": 1}}),
    "nothing": (registry.update_tool_version, (), {}),
    "deletion": (registry.delete_tool_version, (), {}),
}
PROMPT_CHANGES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "new file": (registry.create_prompt_file, ("f", "x"), {}),
    "file": (registry.update_prompt_file, ("userPrompt",), {"content": "new"}),
    "file's name": (registry.update_prompt_file, ("userPrompt",), {"new_name": "f"}),
    "file's format": (registry.update_prompt_file, ("userPrompt",), {"format": FileFormat.YAML}),
    "entrypoint": (registry.set_prompt_file_entrypoint, ("userPrompt", False), {}),
    "file's deletion": (registry.delete_prompt_file, ("userPrompt",), {}),
    "metadata": (registry.set_prompt_metadata, (), {"set": {"a": 1}}),
    "output schema": (registry.set_prompt_output_schema, ({"type": "string"},), {}),
    "readme": (registry.set_prompt_readme, ("new",), {}),
    "model": (
        registry.set_prompt_model_config,
        (),
        {"provider": Provider.OPENAI, "model": "m", "parameters": None},
    ),
    "deletion": (registry.delete_prompt_version, (), {}),
    "pin": (registry.link_tool, (), {**OWN, "constraint": "*"}),
    "pin's name": (registry.rename_pin, (), {**OWN, "alias": "x"}),
    "pin's removal": (registry.unlink_tool, (), OWN),
}


@pytest.fixture
def published(people) -> Any:
    """`@acme/t` and `@acme/p`, which pins it, published as 1.0.0 with everything filled in."""
    p = people
    p.ask(p.member, registry.create_tool, "acme", "t", description="Catalogue words.")
    p.ask(
        p.member,
        registry.update_tool_version,
        "acme",
        "t",
        "draft",
        model_description="Model words.",
        input_schema=SCHEMA,
        output_schema={"type": "array"},
        readme="Readme words.",
        metadata={"key": "Metadata words."},
    )
    p.ask(p.member, registry.publish_tool_version, "acme", "t", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "p")
    p.ask(p.member, registry.link_tool, "acme", "p", "draft", **OWN)
    p.ask(p.member, registry.publish_prompt_version, "acme", "p", "1.0.0")
    return p


def _check_frozen(p: Any, get: Any, draft: Any, ref: str, changes: dict[str, Any]) -> None:
    """Try every change on the publication, which it leaves alone, and on a draft, which it may."""
    before = p.ask(p.member, get, "acme", ref, "1.0.0")
    for what, (operation, args, named) in changes.items():
        code = "pins_draft_only" if "pin" in what else "version_frozen"
        for who in (p.member, p.owner, p.operator):
            error = p.refused(who, operation, "acme", ref, "1.0.0", *args, **named)
            assert (what, error.code) == (what, code)
        p.ask(p.member, draft, "acme", ref)
        if what == "pin":
            p.ask(p.member, registry.unlink_tool, "acme", ref, "draft", **OWN)
        p.ask(p.member, operation, "acme", ref, "draft", *args, **named)
        assert p.ask(p.member, get, "acme", ref, "1.0.0") == before
        if what != "deletion":
            p.ask(p.member, changes["deletion"][0], "acme", ref, "draft")


def test_nothing_of_a_published_contract_can_be_changed(published) -> None:
    """Seed 3: everything that steers the model lives on the version and freezes."""
    get, draft = registry.get_tool_version, registry.create_tool_draft
    _check_frozen(published, get, draft, "t", TOOL_CHANGES)


def test_nothing_of_a_published_prompt_version_can_be_changed(published) -> None:
    """Seed 3: pins freeze on publish alongside the files and the output schema."""
    get, draft = registry.get_prompt_version, registry.create_prompt_draft
    _check_frozen(published, get, draft, "p", PROMPT_CHANGES)


def test_a_draft_carries_the_whole_contract_forward(published) -> None:
    """Seed 3: "so you can edit from it"."""
    p = published
    last = p.ask(p.member, registry.get_tool_version, "acme", "t", "1.0.0")
    fork = p.ask(p.member, registry.create_tool_draft, "acme", "t")
    for part in ("model_description", "input_schema", "output_schema", "readme", "metadata"):
        assert getattr(fork, part) == getattr(last, part) != ""


def test_only_what_is_the_models_reaches_the_model(published, store) -> None:
    """Seed 3: catalogue description, README and metadata are never sent to the model."""
    found = EmbeddedRegistry(store, "file").get_prompt_version("acme", "p", "1.0.0")
    tools = content_of(found).tools()
    for language in BINDING_LANGUAGES:
        text = generate(Lock((Prompt("@acme/p", "1.0.0", tools),)), language)
        assert "Model words." in text
        for words in ("Catalogue words.", "Readme words.", "Metadata words."):
            assert words not in text


def test_the_catalogue_description_is_not_versioned(published) -> None:
    """Seed 3: unversioned; it changes while the publication stays what it was."""
    p = published
    before = p.ask(p.member, registry.get_tool_version, "acme", "t", "1.0.0")
    p.ask(p.member, registry.update_tool, "acme", "t", description="Others.")
    after = p.ask(p.member, registry.get_tool_version, "acme", "t", "1.0.0")
    assert (after.tool.description, before.tool.description) == ("Others.", "Catalogue words.")
    assert (after.model_description, after.revision, after.updated_at) == (
        before.model_description,
        before.revision,
        before.updated_at,
    )


def test_an_output_schema_has_any_shape(people) -> None:
    """Seed 3: only the input schema is an object at its root."""
    p = people
    p.ask(p.member, registry.create_tool, "acme", "t")
    edit = (registry.update_tool_version, "acme", "t", "draft")
    for schema in ({}, {"type": "array"}, {"type": "null"}, {"enum": [1]}):
        assert p.ask(p.member, *edit, output_schema=schema).output_schema == schema
        assert p.refused(p.member, *edit, input_schema=schema).code == "object_root"


def test_being_public_is_what_lets_others_read_and_pin(published) -> None:
    """Seed 3: a tool is private when created, and only its publications become public."""
    p = published
    pin = (registry.link_tool, "vendor", "theirs", "draft")
    p.ask(p.vendor, registry.create_prompt, "vendor", "theirs")
    p.ask(p.member, registry.create_tool_draft, "acme", "t")
    for who in (p.vendor, p.stranger, p.anonymous):
        assert p.refused(who, registry.get_tool, "acme", "t").code == "tool_unknown"
    assert p.refused(p.vendor, *pin, **OWN).code == "tool_unknown"
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)
    for who in (p.vendor, p.stranger, p.anonymous):
        assert p.ask(who, registry.get_tool_version, "acme", "t").version == "1.0.0"
        assert p.ask(who, registry.find_tool_version, "acme", "t", "draft") is None
    seen = p.ask(p.vendor, *pin, **OWN)
    assert [(one.alias, one.tool_version.ref) for one in seen.pins] == [("t", "@acme/t@1.0.0")]


def test_a_published_dependent_anywhere_keeps_a_tool_and_a_draft_does_not(published) -> None:
    """Seed 3: deleting with published dependents is rejected outright; drafts hold nothing."""
    p = published
    assert p.refused(p.admin, registry.delete_tool, "acme", "t").code == "tool_not_deleted"
    assert p.refused(p.operator, registry.delete_tool, "acme", "t").code == "tool_not_deleted"
    p.publish(p.vendor, "vendor", "v", "1.0.0")
    p.ask(p.vendor, registry.set_tool_visibility, "vendor", "v", Visibility.PUBLIC)
    p.ask(p.member, registry.create_prompt_draft, "acme", "p")
    pin = {"tool_workspace": "vendor", "tool_name": "v"}
    p.ask(p.member, registry.link_tool, "acme", "p", "draft", **pin)
    p.ask(p.vendor, registry.set_tool_visibility, "vendor", "v", Visibility.PRIVATE)
    error = p.refused(p.member, registry.publish_prompt_version, "acme", "p", "1.1.0")
    assert error.code == "pinned_tools_readable"
    assert p.ask(p.vendor, registry.delete_tool, "vendor", "v") is True
    p.ask(p.member, registry.publish_prompt_version, "acme", "p", "1.1.0")
