r"""Names and references: what may be called what.

Every pattern is ASCII and matched whole, so letters that only look like ASCII are refused,
and so is a trailing line break (which ``$`` would let through).

Contract source: seed 3, "What a contract holds"; registry wire interface §5.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from .errors import Invalid

__all__ = [
    "Ref",
    "check_email",
    "check_file_name",
    "check_metadata_key",
    "check_prompt_name",
    "check_tool_name",
    "check_wire_name",
    "check_workspace_name",
    "parse_ref",
    "parse_workspace_ref",
    "prompt_identity",
]

Kind = Literal["tool", "prompt"]
VersionRule = Literal["optional", "required", "forbidden"]

_TOOL: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_PROMPT: Final = re.compile(r"[a-z][a-z0-9._-]{0,213}")
_WORKSPACE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_WIRE: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_KEY: Final = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_EMAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")
_SHOWN_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Ref:
    """``@workspace/name`` or ``@workspace/name@version``, taken apart.

    Args:
        workspace: Bare name of the workspace.
        name: Bare name of the tool or prompt.
        version: What stands after the second ``@``: a version, a label or a constraint.
    """

    workspace: str
    name: str
    version: str | None = None

    def __str__(self) -> str:
        tail = "" if self.version is None else f"@{self.version}"
        return f"@{self.workspace}/{self.name}{tail}"


def _shown(text: str) -> str:
    """Return a name for a message: quoted, escaped where it is not ASCII, and short."""
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return ascii(cut)


def _check(text: str, pattern: re.Pattern[str], code: str, what: str, rule: str) -> str:
    if not pattern.fullmatch(text):
        raise Invalid(code, f"{what} {_shown(text)} is not allowed", hint=rule)
    return text


def check_tool_name(name: str) -> str:
    """Return a tool's name, or raise: it doubles as the wire name that the model emits."""
    return _check(
        name,
        _TOOL,
        "tool_name",
        "tool name",
        "use ^[a-z][a-z0-9_-]{0,63}$: lower case, starting with a letter, no dots",
    )


def check_prompt_name(name: str) -> str:
    """Return a prompt's name, or raise."""
    return _check(
        name,
        _PROMPT,
        "prompt_name",
        "prompt name",
        "use ^[a-z][a-z0-9._-]{0,213}$: lower case, starting with a letter",
    )


def check_workspace_name(name: str) -> str:
    """Return a workspace's bare name, or raise."""
    return _check(
        name,
        _WORKSPACE,
        "workspace_name",
        "workspace name",
        "use ^[a-z][a-z0-9_-]{0,63}$, without the @",
    )


def check_wire_name(alias: str) -> str:
    """Return the name that the model sees, or raise: providers accept no others."""
    return _check(alias, _WIRE, "wire_name", "wire name", "use ^[a-zA-Z0-9_-]{1,64}$")


def check_file_name(name: str) -> str:
    """Return a prompt file's name, or raise. It becomes a file's name in a dump."""
    return _check(
        name,
        _FILE,
        "file_name",
        "file name",
        "use letters, digits, '.', '_' and '-', at most 128, not starting with '.' or '-'",
    )


def check_metadata_key(key: str) -> str:
    """Return a metadata key, or raise."""
    return _check(
        key, _KEY, "metadata_key", "metadata key", "use 1 to 128 characters without controls"
    )


def check_email(email: str) -> str:
    """Return an e-mail address in lower case, or raise. It only has to tell users apart."""
    return _check(email, _EMAIL, "email", "e-mail address", "use name@host").lower()


def prompt_identity(name: str) -> str:
    """Return what clients tell prompts apart by: generated names lose ``.``, ``-`` and ``_``."""
    return re.sub(r"[._-]", "_", name)


def parse_workspace_ref(text: str) -> str:
    """Return the bare name of ``@workspace``.

    Raises:
        Invalid: ``bad_ref`` or ``workspace_name``.
    """
    if not text.startswith("@") or "/" in text:
        raise Invalid(
            "bad_ref",
            f"workspace reference {_shown(text)} is not of the form @workspace",
            hint="write for example @acme",
        )
    return check_workspace_name(text[1:])


def parse_ref(text: str, *, kind: Kind = "tool", version: VersionRule = "optional") -> Ref:
    """Take ``@workspace/name[@version]`` apart and check its names.

    The version is not looked at beyond being there: it may be ``draft``, a draft's label,
    a version or a constraint.

    Raises:
        Invalid: ``bad_ref``, or the code of the name that is wrong.
    """
    example = "@acme/fetch-page" if kind == "tool" else "@acme/daily-brief"

    def bad(problem: str, hint: str) -> Invalid:
        return Invalid("bad_ref", f"{kind} reference {_shown(text)} {problem}", hint=hint)

    if not text.startswith("@"):
        raise bad("does not start with @", f"write for example {example}")
    workspace, slash, rest = text[1:].partition("/")
    if not slash:
        raise bad("has no /", f"write for example {example}")
    if not workspace:
        raise bad("has no workspace", f"write for example {example}")
    name, at, wanted = rest.partition("@")
    if not name:
        raise bad(f"has no {kind} name", f"write for example {example}")
    if name.startswith("+"):
        raise bad("names a collection", f"name one {kind}, without the +")
    check_workspace_name(workspace)
    if kind == "tool":
        check_tool_name(name)
    else:
        check_prompt_name(name)
    if at and not wanted.strip():
        raise bad("has nothing after the last @", f"write {example}@draft or {example}@1.2.0")
    if version == "required" and not at:
        raise bad("has no version", f"write @{workspace}/{name}@draft or @{workspace}/{name}@1.2.0")
    if version == "forbidden" and at:
        raise bad("has a version", f"write @{workspace}/{name}")
    return Ref(workspace, name, wanted if at else None)
