"""Every rule of the registry, each its own named check.

A check is given facts and raises when they break its rule; it knows no database. The error's
code is the name of the rule, and its message says what to do. ``RULES`` lists them with
their sentences, for documentation and for the test that provokes each.

Contract source: seed 3, "Rules the registry enforces" and "Pinning a tool to a prompt
version"; registry wire interface §2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from .errors import Conflict, Forbidden, Invalid, NotFound, PublishingDisabled
from .model import Client, Role, Status

__all__ = ["RULES"]

F = TypeVar("F", bound=Callable[..., None])

RULES: Final[dict[str, str]] = {}
"""Code of each rule → its sentence."""

_MAX_LISTED: Final = 5
_ADMINS: Final = frozenset({Role.OWNER, Role.ADMIN})


def _rule(code: str) -> Callable[[F], F]:
    def register(check: F) -> F:
        RULES[code] = (check.__doc__ or "").strip().partition("\n")[0]
        return check

    return register


def _listed(refs: Sequence[str], hidden: int = 0) -> str:
    """Return a short list; things that the caller may not see are only counted."""
    shown = list(refs[:_MAX_LISTED])
    more = len(refs) - len(shown) + hidden
    if more:
        shown.append(f"{more} more" if shown else f"{more} that you can not see")
    return ", ".join(shown)


# --- versions ----------------------------------------------------------------------------


@_rule("version_frozen")
def check_version_frozen(ref: str, status: Status) -> None:
    """A published version never changes."""
    if status is not Status.DRAFT:
        raise Conflict(
            "version_frozen",
            f"{ref} is published and can not be changed or deleted",
            hint="open a draft and address it as @draft",
        )


@_rule("pins_draft_only")
def check_pins_draft_only(ref: str, status: Status) -> None:
    """Pins of a published prompt version never change."""
    if status is not Status.DRAFT:
        raise Conflict(
            "pins_draft_only",
            f"{ref} is published, and pins are frozen with it",
            hint="open a draft of the prompt and pin against @draft",
        )


@_rule("one_draft")
def check_one_draft(ref: str, label: str | None) -> None:
    """A tool or prompt has at most one open draft."""
    if label is not None:
        raise Conflict(
            "one_draft",
            f"{ref} already has an open draft, {label}",
            hint=f"edit {ref}@draft, or publish or delete it first",
        )


@_rule("draft_exists")
def check_draft_exists(ref: str, label: str | None) -> None:
    """Only an open draft can be published."""
    if label is None:
        raise Conflict(
            "draft_exists",
            f"{ref} has no open draft, so there is nothing to publish",
            hint="open a draft first",
        )


@_rule("already_published")
def check_already_published(ref: str, number: str, published_at: datetime | None) -> None:
    """A version number is spent once; a retry is told that the first try worked."""
    if published_at is not None:
        raise Conflict(
            "already_published",
            f"{ref}@{number} is already published, since {published_at:%Y-%m-%dT%H:%M:%SZ}; "
            "nothing was changed",
            hint="if you were retrying, it worked the first time; else use a higher number",
        )


@_rule("version_increases")
def check_version_increases(ref: str, number: str, latest: str | None, is_higher: bool) -> None:
    """A publication has a higher number than the ones before."""
    if latest is not None and not is_higher:
        raise Conflict(
            "version_increases",
            f"{ref}@{number} is not higher than the latest publication, {latest}",
            hint=f"choose a number above {latest}",
        )


@_rule("stale_revision")
def check_stale_revision(ref: str, expected: int | None, found: int) -> None:
    """A change that was based on older content is refused, so that no edit is lost."""
    if expected is not None and expected != found:
        raise Conflict(
            "stale_revision",
            f"{ref} was changed by somebody else: you edited revision {expected}, "
            f"it is at revision {found}",
            hint="read it again, repeat your edit on that, and send it with the new revision",
        )


@_rule("no_matching_version")
def check_no_matching_version(
    ref: str, constraint: str, published: Sequence[str], found: bool, has_draft: bool
) -> None:
    """A constraint that is to be pinned resolves to a version that exists and can be read."""
    if found:
        return
    problem = f"no version of {ref} matches {constraint!a:.90}"
    if published:
        hint = f"published are {_listed(published)}"
    elif has_draft:
        hint = f"nothing is published yet; publish it, or use {ref}@draft"
    else:
        hint = "nothing is published yet"
    raise NotFound("no_matching_version", problem, hint=hint)


# --- pins --------------------------------------------------------------------------------


@_rule("one_version_per_tool")
def check_one_version_per_tool(ref: str, tool: str, pinned: str | None, alias: str) -> None:
    """A prompt version pins at most one version of any tool."""
    if pinned is not None:
        raise Conflict(
            "one_version_per_tool",
            f"{ref} already pins {tool}@{pinned}, as {alias!r}",
            hint="rename that pin, or remove it and pin the other version",
        )


@_rule("wire_name_taken")
def check_wire_name_taken(ref: str, alias: str, holder: str | None, tool: str) -> None:
    """Two pins of a prompt version never share a wire name, when pinned or when renamed."""
    if holder is not None:
        workspace, _, name = tool[1:].partition("/")
        suggestion = f"{workspace}_{name}"[:64]
        raise Conflict(
            "wire_name_taken",
            f"{ref} already pins {holder} under the wire name {alias!r}, and the model could "
            "not tell the two apart",
            hint=f"give {tool} another wire name, for example --as {suggestion}",
        )


@_rule("pin_exists")
def check_pin_exists(ref: str, tool: str, found: bool) -> None:
    """Only a pin that is there can be renamed or removed."""
    if not found:
        raise NotFound(
            "pin_exists", f"{ref} does not pin {tool}", hint="list its pins to see what it does pin"
        )


@_rule("pinned_tools_published")
def check_pinned_tools_published(ref: str, drafts: Sequence[str]) -> None:
    """A prompt version that pins a draft can not be published: it would freeze a moving thing."""
    if drafts:
        raise Conflict(
            "pinned_tools_published",
            f"{ref} pins tool versions that are still drafts: {_listed(drafts)}",
            hint="publish those tools first (the pins follow by themselves), or remove the pins",
        )


@_rule("pinned_tools_readable")
def check_pinned_tools_readable(ref: str, private: Sequence[str], hidden: int) -> None:
    """A prompt version is published by who can read all it pins; if public, so can everybody."""
    if private or hidden:
        raise Conflict(
            "pinned_tools_readable",
            f"{ref} pins private tools that its readers or you can not resolve: "
            f"{_listed(private, hidden)}",
            hint="have them made public, or remove the pins",
        )


@_rule("public_prompt_public_tools")
def check_public_prompt_public_tools(ref: str, private: Sequence[str], hidden: int = 0) -> None:
    """A prompt is public only while every tool that its publications pin is public."""
    if private or hidden:
        raise Conflict(
            "public_prompt_public_tools",
            f"{ref} can not be public: published versions of it pin tools that are not, "
            f"{_listed(private, hidden)}",
            hint="make those tools public first",
        )


@_rule("tool_not_withdrawn")
def check_tool_not_withdrawn(ref: str, dependents: Sequence[str], hidden: int) -> None:
    """A tool stays public while a publication elsewhere, or of a public prompt, pins it."""
    if dependents or hidden:
        raise Conflict(
            "tool_not_withdrawn",
            f"{ref} can not be made private: published prompt versions depend on it, "
            f"{_listed(dependents, hidden)}",
            hint="publications never change, so leave it public and publish a successor",
        )


@_rule("tool_not_deleted")
def check_tool_not_deleted(ref: str, dependents: Sequence[str], hidden: int) -> None:
    """A tool that a published prompt version pins is never deleted."""
    if dependents or hidden:
        raise Conflict(
            "tool_not_deleted",
            f"{ref} can not be deleted: published prompt versions depend on it, "
            f"{_listed(dependents, hidden)}",
            hint="publications never change, so leave it and say in its description that it is old",
        )


@_rule("draft_unpinned")
def check_draft_unpinned(ref: str, dependents: Sequence[str], hidden: int) -> None:
    """A tool's draft is not deleted while a prompt's draft pins it."""
    if dependents or hidden:
        raise Conflict(
            "draft_unpinned",
            f"{ref} can not be deleted: draft prompt versions pin it, "
            f"{_listed(dependents, hidden)}",
            hint="remove those pins first",
        )


# --- names and content -------------------------------------------------------------------


@_rule("name_taken")
def check_name_taken(what: str, shown: str, taken: bool) -> None:
    """Names are unique where they are used."""
    if taken:
        raise Conflict("name_taken", f"{what} {shown} already exists", hint="choose another name")


@_rule("prompt_names_distinct")
def check_prompt_names_distinct(ref: str, other: str | None) -> None:
    """Prompt names differ by more than ``.``, ``-`` and ``_``, which generated names lose."""
    if other is not None:
        raise Conflict(
            "prompt_names_distinct",
            f"{ref} and {other} could not be used in one project: they differ only in "
            "'.', '-' or '_'",
            hint="choose a name that differs in a letter or digit",
        )


@_rule("object_root")
def check_object_root(schema: Mapping[str, Any]) -> None:
    """An input schema has an object at its root: providers require it of arguments."""
    if schema.get("type") != "object":
        raise Invalid(
            "object_root",
            'input schema does not have "type": "object" at its root',
            hint="describe the arguments as the properties of one object",
        )


@_rule("metadata_flat")
def check_metadata_flat(key: str, value: object) -> None:
    """Metadata of a prompt version has plain values."""
    if isinstance(value, dict | list) or value is None:
        raise Invalid(
            "metadata_flat",
            f"metadata {key!a} of a prompt version is not a plain value",
            hint="use text, a number, true or false",
        )


@_rule("too_many")
def check_too_many(ref: str, what: str, count: int, limit: int) -> None:
    """Lists that a reader gets whole are bounded."""
    if count > limit:
        raise Invalid(
            "too_many", f"{ref} would have {count} {what}", hint=f"keep it to at most {limit}"
        )


# --- who may -----------------------------------------------------------------------------


@_rule("not_a_member")
def check_not_a_member(workspace: str, role: Role | None) -> None:
    """Only members write in a workspace."""
    if role is None:
        raise Forbidden(
            "not_a_member",
            f"you are not a member of workspace @{workspace}",
            hint="ask one of its owners or admins to add you",
        )


@_rule("needs_admin")
def check_needs_admin(workspace: str, role: Role | None, what: str) -> None:
    """Visibility, deletion, members, keys and settings are for owners and admins."""
    if role not in _ADMINS:
        raise Forbidden(
            "needs_admin",
            f"only an owner or admin of workspace @{workspace} may {what}",
            hint="ask one of them",
        )


@_rule("last_owner")
def check_last_owner(workspace: str, other_owners: int) -> None:
    """A workspace always has an owner."""
    if other_owners == 0:
        raise Conflict(
            "last_owner",
            f"workspace @{workspace} would be left without an owner",
            hint="make somebody else an owner first",
        )


@_rule("CLI_PUBLISHING_DISABLED")
def check_cli_publishing(workspace: str, allowed: bool, client: Client) -> None:
    """Command lines publish only where the workspace has switched that on."""
    if client == "cli" and not allowed:
        raise PublishingDisabled(workspace)


def split_visible(refs: Iterable[tuple[str, bool]]) -> tuple[list[str], int]:
    """Return the references that the caller may see, and how many there are besides.

    Args:
        refs: Reference and whether the caller may see it.
    """
    visible: list[str] = []
    hidden = 0
    for ref, is_visible in refs:
        if is_visible:
            visible.append(ref)
        else:
            hidden += 1
    return visible, hidden
