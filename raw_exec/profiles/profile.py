"""Model providers: what each takes as the definition of a tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import ConfigError, Problem
from ..fields import did_you_mean
from ..manifest import ToolManifest
from ..tools import Tool
from .document import modern_document
from .names import NameRule, wire_names
from .restoring import Restoration, restore
from .subset import SubsetRules, project_subset

__all__ = [
    "LINT_PROFILES",
    "PROFILES",
    "Profile",
    "ProjectedTool",
    "ProjectedTools",
    "WithheldTool",
    "description_warnings",
    "profile_named",
    "project_input",
    "project_tools",
]

_Render = Callable[[str, str, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Profile:
    """One provider.

    Args:
        name: As ``--for`` takes it.
        provider: Whose messages are read and written: ``anthropic``, ``openai``,
            ``openai-responses``, ``gemini`` or ``mcp``.
        names: What a tool may be called.
        render: Makes a definition of name, description and schema.
        subset: The provider's part of JSON Schema; ``None`` where it takes all of it.
        root_branches: Whether ``anyOf`` and the like may stand at the root.
        array_items: Whether an array must say ``items``.
        property_name: What a property may be called.
        max_description: Characters of a description beyond which a definition may be refused.
        max_tools: Tools in one request.
    """

    name: str
    provider: str
    names: NameRule
    render: _Render
    subset: SubsetRules | None = None
    root_branches: bool = False
    array_items: bool = False
    property_name: re.Pattern[str] | None = None
    max_description: int | None = None
    max_tools: int | None = None


@dataclass(frozen=True, slots=True)
class ProjectedTool:
    """A tool as a provider is told of it.

    Args:
        name: The name that the model uses.
        tool_name: Its name in this runtime.
        definition: What to send.
        told: Pointers of limits that are said in words instead of keywords.
        warnings: What may go wrong all the same.
        restoration: The way back for arguments.
    """

    name: str
    tool_name: str
    definition: dict[str, Any]
    told: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    restoration: Restoration = field(default_factory=Restoration, repr=False, compare=False)

    def restore(self, arguments: Any) -> Any:
        """Return arguments of the model as the tool's own schema means them."""
        return restore(arguments, self.restoration)


@dataclass(frozen=True, slots=True)
class WithheldTool:
    """A tool that a provider can't be told of; the others are not affected.

    Args:
        tool_name: Its name in this runtime.
        identity: Its policy identity.
        problems: Each with a pointer into its manifest, and what to do about it.
    """

    tool_name: str
    identity: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.identity}: {'; '.join(map(str, self.problems))}"


@dataclass(frozen=True, slots=True)
class ProjectedTools:
    """All visible tools for one provider.

    Args:
        profile: The provider.
        tools: Those that it can be told of, in order.
        withheld: The others.
        warnings: About the whole.
    """

    profile: Profile
    tools: tuple[ProjectedTool, ...]
    withheld: tuple[WithheldTool, ...]
    warnings: tuple[str, ...]
    _by_name: Mapping[str, ProjectedTool] = field(repr=False, compare=False)

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """What to send: the value of ``tools`` in a request."""
        found = [tool.definition for tool in self.tools]
        if self.profile.provider == "gemini":
            return [{"functionDeclarations": found}] if found else []
        return found

    def get(self, name: str) -> ProjectedTool | None:
        """Return the tool that the model means by a name."""
        return self._by_name.get(name)


def _anthropic(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


def _function(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": schema}


def _openai(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": _function(name, description, schema)}


def _openai_strict(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    function = {**_function(name, description, schema), "strict": True}
    return {"type": "function", "function": function}


def _responses(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    # Said in words: this form is strict unless told otherwise.
    return {"type": "function", **_function(name, description, schema), "strict": False}


def _responses_strict(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", **_function(name, description, schema), "strict": True}


def _gemini(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "parametersJsonSchema": schema}


def _mcp(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


_PLAIN_NAME: Final = NameRule("A-Za-z0-9_-", "A-Za-z0-9_-", 64)
_ANY_PROPERTY: Final = re.compile(r".*", re.DOTALL)
_STRICT: Final = SubsetRules(
    kept=frozenset(
        {
            "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
            "multipleOf", "minItems", "maxItems",
        }
    ),
    strict=True,
    inline=False,
    formats=frozenset(
        {
            "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
        }
    ),
    property_name=_ANY_PROPERTY,
    max_depth=10,
    max_properties=5000,
)  # fmt: skip
_GEMINI: Final = SubsetRules(
    kept=frozenset(
        {
            "default", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength",
            "minProperties", "maxProperties", "pattern", "uniqueItems",
        }
    ),
    strict=False,
    inline=True,
    formats=frozenset({"date-time"}),
    property_name=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    max_depth=32,
    max_properties=100_000,
)  # fmt: skip
_OPENAI: Final[dict[str, Any]] = {
    "names": _PLAIN_NAME,
    "max_description": 1024,
    "max_tools": 128,
}

PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            "anthropic",
            "anthropic",
            _PLAIN_NAME,
            _anthropic,
            property_name=re.compile(r"[A-Za-z0-9_.-]{1,64}"),
        ),
        Profile("openai", "openai", render=_openai, array_items=True, **_OPENAI),
        Profile("openai-strict", "openai", render=_openai_strict, subset=_STRICT, **_OPENAI),
        Profile(
            "openai-responses", "openai-responses", render=_responses, array_items=True, **_OPENAI
        ),
        Profile(
            "openai-responses-strict",
            "openai-responses",
            render=_responses_strict,
            subset=_STRICT,
            **_OPENAI,
        ),
        Profile(
            "gemini", "gemini", NameRule("A-Za-z_", "A-Za-z0-9_-", 64), _gemini, subset=_GEMINI
        ),
        Profile(
            "mcp",
            "mcp",
            NameRule("A-Za-z0-9_.-", "A-Za-z0-9_.-", 128),
            _mcp,
            root_branches=True,
        ),
    )
}
"""All profiles by name."""

LINT_PROFILES: Final = ("anthropic", "openai", "openai-strict", "gemini", "mcp")
"""One of each kind; the others differ in the form of messages only."""


def profile_named(name: str) -> Profile:
    """Return a profile.

    Raises:
        ConfigError: ``unknown_profile``.
    """
    found = PROFILES.get(name)
    if found is None:
        raise ConfigError(
            "unknown_profile",
            f"there is no provider profile {name!r:.60}{did_you_mean(name, PROFILES)}",
            hint=f"one of {', '.join(PROFILES)}",
        )
    return found


@dataclass(frozen=True, slots=True)
class ProjectedInput:
    """An input schema for one provider.

    Args:
        schema: What to send.
        problems: Why it can't be sent; then ``schema`` means nothing.
        told: Pointers of limits that are said in words.
        restoration: The way back for arguments.
    """

    schema: dict[str, Any]
    problems: tuple[Problem, ...]
    told: tuple[str, ...]
    restoration: Restoration


def project_input(
    manifest: ToolManifest, profile: Profile, *, base_pointer: str = "/input_schema"
) -> ProjectedInput:
    """Project the input schema of a tool.

    Args:
        base_pointer: Goes before every pointer.
    """
    if profile.subset is not None:
        subset = project_subset(manifest.compiled_input, profile.subset)
        return ProjectedInput(
            subset.schema,
            tuple(Problem(base_pointer + p.pointer, p.message) for p in subset.problems),
            tuple(base_pointer + pointer for pointer in subset.told),
            subset.restoration,
        )
    schema = modern_document(
        manifest.input_schema, manifest.compiled_input.dialect, array_items=profile.array_items
    )
    problems = tuple(
        Problem(base_pointer + p.pointer, p.message) for p in _document_problems(manifest, profile)
    )
    return ProjectedInput(schema, problems, (), Restoration())


def _document_problems(manifest: ToolManifest, profile: Profile) -> Iterable[Problem]:
    root = manifest.compiled_input.root
    if not profile.root_branches:
        for keyword in ("oneOf", "anyOf", "allOf", "enum", "not"):
            if keyword in root.schema:
                yield Problem(
                    f"/{keyword}",
                    f"{keyword!r} can't stand at the root; check it in validateArgs, or put it "
                    "into a property",
                )
    if profile.property_name is None:
        return
    seen = {id(root)}
    pending = [root]
    while pending:
        node = pending.pop()
        for edge in node.edges:
            if edge.keyword == "properties" and not profile.property_name.fullmatch(str(edge.key)):
                yield Problem(
                    edge.target.pointer, "has a name that this provider refuses; rename it"
                )
            if id(edge.target) not in seen:
                seen.add(id(edge.target))
                pending.append(edge.target)


def project_tools(tools: Sequence[Tool], profile: Profile) -> ProjectedTools:
    """Project tools for a provider; one that can't be is withheld, and the others are not.

    Args:
        tools: In order; hidden ones are left out.
    """
    visible = [tool for tool in tools if not tool.hidden]
    names = wire_names((tool.name for tool in visible), profile.names)
    projected: list[ProjectedTool] = []
    withheld: list[WithheldTool] = []
    for tool in visible:
        found = project_input(tool.manifest, profile)
        if found.problems:
            withheld.append(WithheldTool(tool.name, tool.identity, found.problems))
            continue
        description = tool.manifest.description
        projected.append(
            ProjectedTool(
                name=names[tool.name],
                tool_name=tool.name,
                definition=profile.render(names[tool.name], description, found.schema),
                told=found.told,
                warnings=tuple(description_warnings(description, profile)),
                restoration=found.restoration,
            )
        )
    warnings = []
    if profile.max_tools is not None and len(projected) > profile.max_tools:
        warnings.append(
            f"{len(projected)} tools; {profile.name} takes {profile.max_tools} in one request"
        )
    return ProjectedTools(
        profile,
        tuple(projected),
        tuple(withheld),
        tuple(warnings),
        {tool.name: tool for tool in projected},
    )


def description_warnings(description: str, profile: Profile) -> Iterable[str]:
    """Say when a description may be refused for its length."""
    limit = profile.max_description
    if limit is not None and len(description) > limit:
        yield f"/description: has {len(description)} characters; {profile.name} may take {limit}"
