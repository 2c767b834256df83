"""The operations: what each changes, who may do it, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.contracts import service as registry
from raw_exec.contracts.model import (
    FileFormat,
    ModelConfig,
    PromptKind,
    Provider,
    Role,
    Status,
    Visibility,
)

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}


def test_a_tool_is_walked_through_its_life(any_people) -> None:
    """Seed 3, "Versions and visibility", on every database."""
    p = any_people
    tool = p.ask(p.member, registry.create_tool, "acme", "t", description="catalogue")
    assert (tool.ref, tool.visibility, tool.description) == (
        "@acme/t",
        Visibility.PRIVATE,
        "catalogue",
    )
    draft = p.ask(p.member, registry.get_tool_version, "acme", "t")
    assert (draft.version, draft.status, draft.input_schema) == (
        "0.0.1-draft.0",
        Status.DRAFT,
        {"type": "object", "properties": {}},
    )
    edit = (registry.update_tool_version, "acme", "t")
    p.ask(p.member, *edit, "draft", input_schema=SCHEMA, output_schema={"type": "string"})
    p.ask(p.member, *edit, "0.0.1-draft.0", model_description="d", metadata={"n": [1, None]})
    kept = p.ask(p.member, *edit, "draft", output_schema=None, readme="# R")
    assert (
        kept.input_schema,
        kept.output_schema,
        kept.model_description,
        kept.metadata,
        kept.readme,
        kept.revision,
    ) == (SCHEMA, None, "d", {"n": [1, None]}, "# R", 4)
    first = p.ask(p.member, registry.publish_tool_version, "acme", "t", "1.0.0")
    fork = p.ask(p.member, registry.create_tool_draft, "acme", "t")
    assert fork.version == "1.0.1-draft.0"
    assert (fork.input_schema, fork.model_description, fork.metadata, fork.readme) == (
        first.input_schema,
        first.model_description,
        first.metadata,
        first.readme,
    )
    listed = p.ask(p.member, registry.list_tool_versions, "acme", "t")
    assert [one.version for one in listed.data] == ["1.0.1-draft.0", "1.0.0"]
    assert p.ask(p.member, registry.delete_tool_version, "acme", "t", "draft") is True
    assert p.ask(p.member, registry.find_tool_version, "acme", "t", "draft") is None
    assert p.refused(p.member, registry.get_tool_version, "acme", "t", "draft").code == (
        "version_unknown"
    )
    assert p.ask(p.admin, registry.delete_tool, "acme", "t") is True
    assert p.refused(p.member, registry.get_tool, "acme", "t").code == "tool_unknown"


def test_a_prompt_is_walked_through_its_life(any_people) -> None:
    """Registry wire interface §2.3, on every database."""
    p = any_people
    prompt = p.ask(p.member, registry.create_prompt, "acme", "brief", kind=PromptKind.SYSTEM_ONE)
    assert (prompt.ref, prompt.kind) == ("@acme/brief", PromptKind.SYSTEM_ONE)
    at = ("acme", "brief", "draft")
    draft = p.ask(p.member, registry.get_prompt_version, *at)
    assert [(f.name, f.content, f.is_entrypoint) for f in draft.files] == [
        ("systemPrompt", "", True),
        ("userPrompt", "", True),
    ]
    part = p.ask(p.member, registry.create_prompt_file, *at, "part", "{{n}}{{@type integer}}")
    assert (part.is_entrypoint, part.format) == (False, FileFormat.TEXT)
    p.ask(p.member, registry.update_prompt_file, *at, "userPrompt", content="{{> part}}")
    renamed = p.ask(p.member, registry.update_prompt_file, *at, "part", new_name="piece")
    assert renamed.files[1].schema_warnings[0]["path"] == "> part"
    p.ask(p.member, registry.update_prompt_file, *at, "userPrompt", content="{{> piece}}")
    p.ask(p.member, registry.delete_prompt_file, *at, "systemPrompt")
    p.ask(p.member, registry.set_prompt_file_entrypoint, *at, "piece", True)
    p.ask(p.member, registry.set_prompt_metadata, *at, set={"a": "x", "n": 3, "f": 1.5, "b": True})
    p.ask(p.member, registry.set_prompt_metadata, *at, set={"n": 4}, delete=["a", "unknown"])
    p.ask(p.member, registry.set_prompt_output_schema, *at, {"type": "string"})
    p.ask(p.member, registry.set_prompt_readme, *at, "# R")
    p.ask(
        p.member,
        registry.set_prompt_model_config,
        *at,
        provider=Provider.ANTHROPIC,
        model="m",
        parameters={"t": 1},
    )
    done = p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert [(f.name, f.is_entrypoint, f.input_schema, f.schema_warnings) for f in done.files] == [
        ("userPrompt", True, wanted, ()),
        ("piece", True, wanted, ()),
    ]
    assert (done.metadata, done.output_schema, done.readme, done.model_config) == (
        {"n": 4, "f": 1.5, "b": True},
        {"type": "string"},
        "# R",
        ModelConfig(Provider.ANTHROPIC, "m", {"t": 1}),
    )
    error = p.refused(p.member, registry.set_prompt_readme, "acme", "brief", "1.0.0", "changed")
    assert error.code == "version_frozen"
    fork = p.ask(p.member, registry.create_prompt_draft, "acme", "brief")
    assert (fork.files, fork.metadata, fork.model_config) == (
        done.files,
        done.metadata,
        done.model_config,
    )
    listed = p.ask(p.member, registry.list_prompt_versions, "acme", "brief")
    assert listed.data == (fork, done)
    assert p.ask(p.member, registry.delete_prompt_version, *at) is True
    assert p.ask(p.member, registry.get_prompt_version, "acme", "brief", "*") == done


def test_a_version_is_named_in_every_way_that_callers_write(people) -> None:
    """Registry wire interface §2.2: the literal, a version, a label, or a constraint."""
    p = people
    p.publish(p.member, "acme", "t", "1.0.0")
    for number in ("1.9.0", "1.10.0", "2.0.0"):
        p.ask(p.member, registry.create_tool_draft, "acme", "t")
        p.ask(p.member, registry.publish_tool_version, "acme", "t", number)
    p.ask(p.member, registry.create_tool_draft, "acme", "t")

    def found(who: Any, constraint: str | None, status: Status | None = None) -> str | None:
        one = p.ask(who, registry.find_tool_version, "acme", "t", constraint, status=status)
        return one.version if one else None

    assert found(p.member, None) == "2.0.0"
    assert found(p.member, "draft") == "2.0.1-draft.0"
    assert found(p.member, "2.0.1-draft.0") == "2.0.1-draft.0"
    assert found(p.member, "1.0.0") == "1.0.0"
    assert found(p.member, "^1") == "1.10.0"
    assert found(p.member, "^3") is None
    assert found(p.member, "draft", Status.PUBLISHED) is None
    assert found(p.member, "draft", Status.DRAFT) == "2.0.1-draft.0"
    assert found(p.member, "^1", Status.DRAFT) is None
    assert found(p.member, "1.0.0", Status.DRAFT) is None
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)
    assert found(p.anonymous, None) == "2.0.0"
    assert found(p.anonymous, "draft") is None
    assert found(p.anonymous, "2.0.1-draft.0") is None
    error = p.refused(p.member, registry.find_tool_version, "acme", "t", "latest")
    assert error.code == "bad_constraint"


def test_what_somebody_may_not_read_is_the_same_as_what_is_not_there(people) -> None:
    """Security: the existence of a private thing is not told."""
    p = people
    p.publish(p.member, "acme", "secret", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "secret")
    for who in (p.stranger, p.anonymous, p.vendor):
        for operation in (
            registry.get_tool,
            registry.get_tool_version,
            registry.dependent_count,
            registry.get_prompt,
            registry.get_prompt_version,
        ):
            hidden = p.refused(who, operation, "acme", "secret")
            absent = p.refused(who, operation, "acme", "nothing")
            assert str(hidden).replace("secret", "nothing") == str(absent)
        assert p.ask(who, registry.list_tools, "acme").total == 0
        assert p.ask(who, registry.list_prompts, "acme").total == 0
    # The pair: members read them, and everybody reads what is public.
    assert p.ask(p.member, registry.get_tool, "acme", "secret").name == "secret"
    p.ask(p.admin, registry.set_tool_visibility, "acme", "secret", Visibility.PUBLIC)
    for who in (p.stranger, p.anonymous, p.vendor):
        assert p.ask(who, registry.get_tool_version, "acme", "secret").version == "1.0.0"
        assert p.ask(who, registry.list_tools, "acme").total == 1


def test_only_members_write_and_only_admins_administer(people) -> None:
    """Security: each writing operation, by everybody who may not."""
    p = people
    p.publish(p.member, "acme", "t", "1.0.0")
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    p.ask(p.admin, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)
    pin = {"tool_workspace": "acme", "tool_name": "t"}
    key = p.ask(p.operator, registry.create_key, workspace="acme")
    reader = p.ask(None, lambda s, _: registry.authenticate(s, key.token, client="web"))
    authoring = [
        (registry.create_tool, ("acme", "x"), {}),
        (registry.update_tool, ("acme", "t"), {"description": "x"}),
        (registry.create_tool_draft, ("acme", "t"), {}),
        (registry.update_tool_version, ("acme", "t", "draft"), {"readme": "x"}),
        (registry.patch_tool_metadata, ("acme", "t", "draft"), {"set": {}}),
        (registry.publish_tool_version, ("acme", "t", "2.0.0"), {}),
        (registry.delete_tool_version, ("acme", "t", "draft"), {}),
        (registry.create_prompt, ("acme", "x"), {}),
        (registry.update_prompt, ("acme", "brief"), {"description": "x"}),
        (registry.create_prompt_draft, ("acme", "brief"), {}),
        (registry.publish_prompt_version, ("acme", "brief", "2.0.0"), {}),
        (registry.delete_prompt_version, ("acme", "brief", "draft"), {}),
        (registry.set_prompt_readme, ("acme", "brief", "draft", "x"), {}),
        (registry.create_prompt_file, ("acme", "brief", "draft", "f", ""), {}),
        (registry.link_tool, ("acme", "brief", "draft"), pin),
        (registry.unlink_tool, ("acme", "brief", "draft"), pin),
    ]
    for operation, args, named in authoring:
        for who in (p.anonymous, p.stranger, p.vendor, reader):
            assert p.refused(who, operation, *args, **named).code == "not_a_member"
    for operation, args in (
        (registry.set_tool_visibility, ("acme", "t", Visibility.PRIVATE)),
        (registry.set_prompt_visibility, ("acme", "brief", Visibility.PRIVATE)),
        (registry.delete_tool, ("acme", "t")),
        (registry.set_member, ("acme", "stranger@else.test", Role.MEMBER)),
        (registry.set_workspace, ("acme",)),
    ):
        assert p.refused(p.member, operation, *args).code == "needs_admin"
        assert p.refused(p.stranger, operation, *args).code == "not_a_member"
    for operation, args, named in (
        (registry.add_user, ("x@y.test",), {}),
        (registry.list_users, (), {}),
        (registry.list_workspaces, (), {}),
        (registry.add_workspace, ("x",), {"owner": "owner@acme.test"}),
    ):
        assert p.refused(p.owner, operation, *args, **named).code == "needs_operator"
    # The workspace's key reads private things and drafts of its workspace, and no other's.
    p.ask(p.member, registry.create_tool_draft, "acme", "t")
    assert p.ask(reader, registry.get_tool_version, "acme", "t", "draft").status is Status.DRAFT
    p.publish(p.vendor, "vendor", "v", "1.0.0")
    assert p.refused(reader, registry.get_tool, "vendor", "v").code == "tool_unknown"


def test_an_admin_can_not_make_or_unmake_owners(people) -> None:
    """Our choice: an admin must not be able to take a workspace over."""
    p = people
    for email, role in (("admin@acme.test", Role.OWNER), ("owner@acme.test", Role.MEMBER)):
        assert p.refused(p.admin, registry.set_member, "acme", email, role).code == "needs_owner"
    refused = p.refused(p.admin, registry.remove_member, "acme", "owner@acme.test")
    assert refused.code == "needs_owner"
    p.ask(p.owner, registry.set_member, "acme", "admin@acme.test", Role.OWNER)
    assert p.ask(p.owner, registry.remove_member, "acme", "owner@acme.test") is True
    members = p.ask(p.admin, registry.list_members, "acme")
    assert [(one.user.email, one.role) for one in members] == [
        ("admin@acme.test", Role.OWNER),
        ("both@else.test", Role.MEMBER),
        ("member@acme.test", Role.MEMBER),
    ]
    assert p.refused(p.owner, registry.create_tool, "acme", "t").code == "not_a_member"


def test_a_user_sees_who_they_are_and_where_they_belong(people) -> None:
    """Registry wire interface §2.1."""
    p = people
    assert p.ask(p.both, registry.me).email == "both@else.test"
    found = p.ask(p.both, registry.my_memberships)
    assert [(one.role, one.workspace.name) for one in found] == [
        (Role.MEMBER, "acme"),
        (Role.MEMBER, "vendor"),
    ]
    assert p.refused(p.anonymous, registry.me).code == "needs_user"


def test_a_pin_that_the_reader_may_not_read_is_counted_and_not_shown(people) -> None:
    """Seed 3: any tool you can read can be pinned; a draft may hold one that others can not."""
    p = people
    p.publish(p.vendor, "vendor", "v", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    pin = {"tool_workspace": "vendor", "tool_name": "v"}
    assert p.refused(p.member, registry.link_tool, "acme", "brief", "draft", **pin).code == (
        "tool_unknown"
    )
    p.ask(p.both, registry.link_tool, "acme", "brief", "draft", **pin)
    seen = p.ask(p.both, registry.get_prompt_version, "acme", "brief", "draft")
    hidden = p.ask(p.member, registry.get_prompt_version, "acme", "brief", "draft")
    assert (len(seen.pins), seen.hidden_pins) == (1, 0)
    assert (len(hidden.pins), hidden.hidden_pins) == (0, 1)
    p.ask(p.member, registry.unlink_tool, "acme", "brief", "draft", **pin)


def test_a_private_prompt_with_a_private_tool_of_elsewhere_is_whole_once_it_is_published(
    people,
) -> None:
    """Seed 3: any tool you can read can be pinned, and readers can resolve all of it."""
    p = people
    p.publish(p.vendor, "vendor", "v", "1.0.0")
    p.ask(p.both, registry.create_prompt, "acme", "brief")
    pin = {"tool_workspace": "vendor", "tool_name": "v"}
    p.ask(p.both, registry.link_tool, "acme", "brief", "draft", **pin)
    p.ask(p.both, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    seen = p.ask(p.member, registry.get_prompt_version, "acme", "brief", "1.0.0")
    assert ([one.tool_version.ref for one in seen.pins], seen.hidden_pins) == (
        ["@vendor/v@1.0.0"],
        0,
    )
    assert p.refused(p.member, registry.get_tool, "vendor", "v").code == "tool_unknown"
    error = p.refused(p.admin, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)
    assert error.code == "public_prompt_public_tools"
    error = p.refused(p.vendor, registry.delete_tool, "vendor", "v")
    assert error.code == "tool_not_deleted"


def test_drafts_of_another_workspace_can_not_be_pinned(people) -> None:
    """Our choice: drafts are for members, also those of public tools."""
    p = people
    p.publish(p.vendor, "vendor", "v", "1.0.0")
    p.ask(p.vendor, registry.set_tool_visibility, "vendor", "v", Visibility.PUBLIC)
    p.ask(p.vendor, registry.create_tool_draft, "vendor", "v")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    pin = {"tool_workspace": "vendor", "tool_name": "v", "constraint": "draft"}
    error = p.refused(p.member, registry.link_tool, "acme", "brief", "draft", **pin)
    assert error.code == "no_matching_version"
    p.ask(p.both, registry.link_tool, "acme", "brief", "draft", **pin)


def test_lists_are_paged_searched_and_newest_first(any_people, clock) -> None:
    """Registry wire interface §2.2; the search's own wildcards are ordinary characters."""
    p = any_people
    for name in ("alpha", "beta_1", "beta-2"):
        clock.advance(1)
        p.ask(p.member, registry.create_tool, "acme", name, description=f"100% {name}")

    def names(**named: Any) -> tuple[list[str], int]:
        page = p.ask(p.member, registry.list_tools, "acme", **named)
        return [one.name for one in page.data], page.total

    assert names() == (["beta-2", "beta_1", "alpha"], 3)
    assert names(skip=1, take=1) == (["beta_1"], 3)
    assert names(take=0) == ([], 3)
    assert names(search="BETA") == (["beta-2", "beta_1"], 2)
    assert names(search="a_1") == (["beta_1"], 1)
    assert names(search="0% a") == (["alpha"], 1)
    assert names(search="%") == (["beta-2", "beta_1", "alpha"], 3)
    assert names(search="'; DROP TABLE tools; --") == ([], 0)
    for bad in ({"take": -1}, {"skip": -1}, {"take": 1001}):
        assert p.refused(p.member, registry.list_tools, "acme", **bad).code == "bad_page"


BOMB: dict[str, Any] = {"type": "object"}
for _ in range(80):
    BOMB = {"type": "object", "properties": {"a": BOMB}}
RECURSIVE: dict[str, Any] = {"type": "object"}
RECURSIVE["properties"] = {"again": RECURSIVE}


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "object", "description": "x" * 5_000_000}, "value_too_large"),
        (BOMB, "bad_json"),
        (RECURSIVE, "bad_json"),
        ([], "bad_json"),
        ("object", "bad_json"),
        (None, "bad_json"),
        ({"type": "array"}, "object_root"),
        ({}, "object_root"),
        ({"type": ["object"]}, "object_root"),
        ({"type": "object", "properties": 5}, "bad_schema"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x.test/"}}}, "bad_schema"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "bad_schema"),
        ({"type": "object", "maximum": float("nan")}, "bad_json"),
        ({"type": "object", "title": "a\0b"}, "bad_text"),
        ({"type": "object", "title": "\ud800"}, "bad_json"),
    ],
)
def test_an_input_schema_that_nobody_could_use_is_refused(people, schema: Any, code: str) -> None:
    """Faults: 5 MB schema, recursive schema, and whatever no validator could compile."""
    p = people
    p.ask(p.member, registry.create_tool, "acme", "t")
    edit = (registry.update_tool_version, "acme", "t", "draft")
    assert p.refused(p.member, *edit, input_schema=schema).code == code
    kept = p.ask(p.member, registry.get_tool_version, "acme", "t", "draft")
    assert (kept.input_schema["type"], kept.revision) == ("object", 1)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "$defs": {"n": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/n"}]},
        {"type": "object", "properties": {"again": {"$ref": "#"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"type": "object", "properties": {"größe": {"enum": ["ä", "\u2028", "<&>"]}}},
    ],
)
def test_more_than_the_generators_can_express_is_stored_as_it_is(any_people, schema: Any) -> None:
    """Seed 3: the registry itself accepts more than the local check."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")
    edit = (registry.update_tool_version, "acme", "t", "draft")
    assert p.ask(p.member, *edit, input_schema=schema).input_schema == schema
    assert p.ask(p.member, registry.get_tool_version, "acme", "t", "draft").input_schema == schema


@pytest.mark.parametrize("bad", ["a\0b", "\ud800", "x" * (2 * 1024 * 1024)])
def test_a_text_that_no_database_could_hold_is_refused(any_people, bad: str) -> None:
    """Fault: PostgreSQL has no NUL; every database refuses alike."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")
    p.ask(p.member, registry.create_prompt, "acme", "t")
    at = ("acme", "t", "draft")
    for operation, args, named in (
        (registry.update_tool, ("acme", "t"), {"description": bad}),
        (registry.update_tool_version, at, {"readme": bad}),
        (registry.update_tool_version, at, {"model_description": bad}),
        (registry.update_tool_version, at, {"metadata": {"k": bad}}),
        (registry.set_prompt_readme, (*at, bad), {}),
        (registry.set_prompt_metadata, at, {"set": {"k": bad}}),
        (registry.create_prompt_file, (*at, "f", bad), {}),
        (registry.list_tools, ("acme",), {"search": bad}),
    ):
        error = p.refused(p.member, operation, *args, **named)
        assert error.code in {"bad_text", "bad_json", "value_too_large"}
    for name in (bad, "'; DROP TABLE tools; --"):
        if "\ud800" not in name and "\0" not in name:
            assert p.refused(p.member, registry.get_tool, "acme", name).code == "tool_unknown"
