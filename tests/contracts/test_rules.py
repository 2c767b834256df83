"""Every rule of the registry, provoked through the operations that it guards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raw_exec.contracts import service as registry
from raw_exec.contracts.errors import RegistryError
from raw_exec.contracts.model import Role, Visibility
from raw_exec.contracts.rules import RULES

PIN = {"tool_workspace": "vendor", "tool_name": "web-search"}


def version_frozen(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.0.0")
    return p.refused(p.member, registry.update_tool_version, "acme", "t", "1.0.0", readme="changed")


def _prompt_with_pin(p, constraint: str = "*") -> None:
    p.ask(p.vendor, registry.create_tool, "vendor", "web-search")
    p.ask(p.vendor, registry.publish_tool_version, "vendor", "web-search", "1.2.0")
    p.ask(p.vendor, registry.set_tool_visibility, "vendor", "web-search", Visibility.PUBLIC)
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", constraint=constraint, **PIN)


def pins_draft_only(p) -> RegistryError:
    _prompt_with_pin(p)
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    for operation, more in (
        (registry.link_tool, {}),
        (registry.unlink_tool, {}),
        (registry.rename_pin, {"alias": "x"}),
    ):
        error = p.refused(p.member, operation, "acme", "brief", "1.0.0", **PIN, **more)
        assert error.code == "pins_draft_only"
    return error


def one_draft(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    return p.refused(p.member, registry.create_tool_draft, "acme", "t")


def draft_exists(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.0.0")
    return p.refused(p.member, registry.publish_tool_version, "acme", "t", "1.1.0")


def already_published(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.0.0")
    p.ask(p.member, registry.create_tool_draft, "acme", "t")
    return p.refused(p.member, registry.publish_tool_version, "acme", "t", "1.0.0")


def version_increases(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.10.0")
    p.ask(p.member, registry.create_tool_draft, "acme", "t")
    return p.refused(p.member, registry.publish_tool_version, "acme", "t", "1.9.9")


def stale_revision(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    seen = p.ask(p.member, registry.get_tool_version, "acme", "t", "draft").revision
    edit = (registry.update_tool_version, "acme", "t", "draft")
    p.ask(p.admin, *edit, readme="theirs", expected_revision=seen)
    return p.refused(p.member, *edit, readme="mine", expected_revision=seen)


def no_matching_version(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    tool = {"tool_workspace": "acme", "tool_name": "t"}
    return p.refused(
        p.member, registry.link_tool, "acme", "brief", "draft", constraint="^2", **tool
    )


def one_version_per_tool(p) -> RegistryError:
    _prompt_with_pin(p)
    return p.refused(
        p.member,
        registry.link_tool,
        "acme",
        "brief",
        "draft",
        constraint="1.2.0",
        alias="again",
        **PIN,
    )


def wire_name_taken(p) -> RegistryError:
    _prompt_with_pin(p)
    p.publish(p.member, "acme", "web-search", "1.0.0")
    own = {"tool_workspace": "acme", "tool_name": "web-search"}
    error = p.refused(p.member, registry.link_tool, "acme", "brief", "draft", **own)
    assert error.code == "wire_name_taken"
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", alias="own", **own)
    return p.refused(
        p.member, registry.rename_pin, "acme", "brief", "draft", alias="web-search", **own
    )


def pin_exists(p) -> RegistryError:
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    return p.refused(p.member, registry.unlink_tool, "acme", "brief", "draft", **PIN)


def pinned_tools_published(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    tool = {"tool_workspace": "acme", "tool_name": "t"}
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", constraint="draft", **tool)
    return p.refused(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")


def pinned_tools_readable(p) -> RegistryError:
    p.publish(p.vendor, "vendor", "web-search", "1.0.0")
    p.ask(p.both, registry.create_prompt, "acme", "brief")
    p.ask(p.both, registry.link_tool, "acme", "brief", "draft", **PIN)
    return p.refused(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")


def public_prompt_public_tools(p) -> RegistryError:
    p.publish(p.member, "acme", "t", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    tool = {"tool_workspace": "acme", "tool_name": "t"}
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", **tool)
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    return p.refused(p.admin, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)


def tool_not_withdrawn(p) -> RegistryError:
    _prompt_with_pin(p)
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    return p.refused(
        p.vendor, registry.set_tool_visibility, "vendor", "web-search", Visibility.PRIVATE
    )


def tool_not_deleted(p) -> RegistryError:
    _prompt_with_pin(p)
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    return p.refused(p.vendor, registry.delete_tool, "vendor", "web-search")


def draft_unpinned(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    tool = {"tool_workspace": "acme", "tool_name": "t"}
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", constraint="draft", **tool)
    return p.refused(p.member, registry.delete_tool_version, "acme", "t", "draft")


def name_taken(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    return p.refused(p.member, registry.create_tool, "acme", "t")


def prompt_names_distinct(p) -> RegistryError:
    p.ask(p.member, registry.create_prompt, "acme", "daily-brief")
    return p.refused(p.member, registry.create_prompt, "acme", "daily.brief")


def object_root(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    return p.refused(
        p.member,
        registry.update_tool_version,
        "acme",
        "t",
        "draft",
        input_schema={"oneOf": [{"type": "object"}]},
    )


def metadata_flat(p) -> RegistryError:
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    return p.refused(
        p.member, registry.set_prompt_metadata, "acme", "brief", "draft", set={"a": [1]}
    )


def too_many(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    tags = tuple(f"tag{i}" for i in range(21))
    return p.refused(p.member, registry.update_tool, "acme", "t", tags=tags)


def not_a_member(p) -> RegistryError:
    return p.refused(p.stranger, registry.create_tool, "acme", "t")


def needs_admin(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    return p.refused(p.member, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)


def last_owner(p) -> RegistryError:
    error = p.refused(p.owner, registry.remove_member, "acme", "owner@acme.test")
    assert error.code == "last_owner"
    return p.refused(p.owner, registry.set_member, "acme", "owner@acme.test", Role.ADMIN)


def cli_publishing_disabled(p) -> RegistryError:
    p.ask(p.member, registry.create_tool, "acme", "t")
    agent = p.log_in("member@acme.test", client="cli")
    return p.refused(agent, registry.publish_tool_version, "acme", "t", "1.0.0")


PROVOKED: dict[str, Callable[..., RegistryError]] = {
    "CLI_PUBLISHING_DISABLED": cli_publishing_disabled,
    **{
        one.__name__: one
        for one in (
            version_frozen,
            pins_draft_only,
            one_draft,
            draft_exists,
            already_published,
            version_increases,
            stale_revision,
            no_matching_version,
            one_version_per_tool,
            wire_name_taken,
            pin_exists,
            pinned_tools_published,
            pinned_tools_readable,
            public_prompt_public_tools,
            tool_not_withdrawn,
            tool_not_deleted,
            draft_unpinned,
            name_taken,
            prompt_names_distinct,
            object_root,
            metadata_flat,
            too_many,
            not_a_member,
            needs_admin,
            last_owner,
        )
    },
}


def test_every_rule_has_a_case_and_a_sentence() -> None:
    """Our choice: a rule without a test, or without a sentence, is not there."""
    assert set(PROVOKED) == set(RULES)
    assert all(sentence.endswith(".") for sentence in RULES.values())


@pytest.mark.parametrize("code", sorted(RULES))
def test_a_broken_rule_is_refused_by_name_and_says_what_to_do(code: str, people) -> None:
    """Every rule is its own named check whose message says what to do."""
    error = PROVOKED[code](people)
    assert error.code == code
    assert error.hint
    assert str(error).endswith(f"; {error.hint}")
    assert not str(error).endswith(".")


def test_the_allowed_neighbours_of_the_pin_rules_still_work(people) -> None:
    """A registry that refuses everything would pass the cases above."""
    p = people
    _prompt_with_pin(p, "^1.0.0")
    p.publish(p.member, "acme", "t", "1.0.0")
    own = {"tool_workspace": "acme", "tool_name": "t"}
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", **own)
    p.ask(p.member, registry.rename_pin, "acme", "brief", "draft", alias="web_search", **PIN)
    # Its own name again is no clash with itself.
    p.ask(p.member, registry.rename_pin, "acme", "brief", "draft", alias="web_search", **PIN)
    p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    # A private prompt may pin a private tool of its own workspace, and a tool that nothing
    # published pins from elsewhere may be withdrawn.
    found = p.ask(p.member, registry.get_prompt_version, "acme", "brief", "1.0.0")
    assert [(pin.alias, pin.tool_version.ref) for pin in found.pins] == [
        ("web_search", "@vendor/web-search@1.2.0"),
        ("t", "@acme/t@1.0.0"),
    ]
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PRIVATE)
    p.ask(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PUBLIC)
    p.ask(p.admin, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)
    error = p.refused(p.admin, registry.set_tool_visibility, "acme", "t", Visibility.PRIVATE)
    assert error.code == "tool_not_withdrawn"


def test_a_public_prompt_can_not_be_published_with_a_private_tool_of_its_own(people) -> None:
    """Seed 3: a prompt can never reach an audience that cannot resolve what it depends on."""
    p = people
    p.publish(p.member, "acme", "t", "1.0.0")
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    p.ask(p.admin, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)
    own = {"tool_workspace": "acme", "tool_name": "t"}
    p.ask(p.member, registry.link_tool, "acme", "brief", "draft", **own)
    error = p.refused(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    assert error.code == "pinned_tools_readable"


def test_a_tool_pinned_by_drafts_only_can_be_deleted_and_the_drafts_lose_the_pin(people) -> None:
    """Seed 3: only published dependents keep a tool from being deleted."""
    p = people
    _prompt_with_pin(p)
    assert p.ask(p.vendor, registry.dependent_count, "vendor", "web-search") == 0
    assert p.ask(p.vendor, registry.delete_tool, "vendor", "web-search") is True
    assert p.ask(p.member, registry.get_prompt_version, "acme", "brief", "draft").pins == ()


def test_a_refusal_counts_dependents_that_the_asker_may_not_see(people) -> None:
    """Our choice: the owner of a tool does not learn the names of others' private prompts."""
    p = people
    error = tool_not_deleted(p)
    assert "1 that you can not see" in str(error)
    assert "brief" not in str(error)
    p.ask(p.owner, registry.set_prompt_visibility, "acme", "brief", Visibility.PUBLIC)
    seen = p.refused(p.vendor, registry.delete_tool, "vendor", "web-search")
    assert "@acme/brief@1.0.0" in str(seen)


def test_a_pin_never_moves_after_it_was_made(people) -> None:
    """Seed 3: the constraint is resolved once, at link time."""
    p = people
    _prompt_with_pin(p, "^1.0.0")
    p.ask(p.vendor, registry.create_tool_draft, "vendor", "web-search")
    p.ask(p.vendor, registry.publish_tool_version, "vendor", "web-search", "1.3.0")
    found = p.ask(p.member, registry.get_prompt_version, "acme", "brief", "draft")
    assert [pin.tool_version.version for pin in found.pins] == ["1.2.0"]


def test_a_pin_to_a_draft_follows_it_into_its_publication(people) -> None:
    """Registry wire interface §2.2: a draft is published in place."""
    p = people
    pinned_tools_published(p)
    p.ask(p.member, registry.publish_tool_version, "acme", "t", "2.0.0")
    found = p.ask(p.member, registry.publish_prompt_version, "acme", "brief", "1.0.0")
    assert [pin.tool_version.ref for pin in found.pins] == ["@acme/t@2.0.0"]


def test_cli_publishing_is_allowed_once_an_admin_switched_it_on(people) -> None:
    """Registry wire interface §1.3; members can not switch it on for themselves."""
    p = people
    cli_publishing_disabled(p)
    agent = p.log_in("member@acme.test", client="cli")
    refused = p.refused(agent, registry.set_workspace, "acme", cli_publishing=True)
    assert refused.code == "needs_admin"
    p.ask(p.admin, registry.set_workspace, "acme", cli_publishing=True)
    assert p.ask(agent, registry.publish_tool_version, "acme", "t", "1.0.0").version == "1.0.0"
