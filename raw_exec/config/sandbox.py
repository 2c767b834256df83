"""Sandbox profiles: what a tool is granted, as the operator writes it.

Rules:

1. A profile's fields are its own, else those of what it ``extends``, else the closed default:
   nothing readable, nothing writable, no network, no processes.
2. A profile in the file with a built-in's name overrides only the fields it writes. Built-ins
   that extend it see the change.
3. ``tools`` maps identities to profiles: an exact ID wins over globs, and among globs the last
   match; then the built-in mapping; then ``default``.
4. What this version can not enforce is refused here, not ignored later.
5. ``effects`` other than ``declared`` runs each call on a copy-on-write view, which takes a
   sandbox and a process of its own for the call; a profile that says otherwise is refused.

Not covered: whether the host can enforce a profile. The sandbox's probe decides that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..fields import Cursor, did_you_mean, shown
from ..policy import compile_glob

__all__ = ["BUILTIN_TOOLS", "ProfileSpec", "SandboxConfig", "check_sandbox"]

PROFILE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_TOOL_GLOB = re.compile(r"[!-~]{1,256}")
_MAX_PROFILES = 256
_MAX_GRANTS = 256
_MAX_GRANT_CHARS = 4096
_VARIABLES = ("$CWD", "$HOME", "$CONFIG")
_CHOICES: Final = {
    "network": ("none", "loopback", "allowlist", "host"),
    "processes": ("none", "allowed"),
    "tier": ("baseline", "namespaces", "cgroup"),
    "isolation": ("pooled", "fresh"),
    "effects": ("declared", "observed", "enforced"),
    "commit": ("success", "always"),
    "sandbox": ("on", "none"),
}
_UNSUPPORTED: Final = {
    ("network", "allowlist"): "use 'none', 'loopback' or 'host'",
}
_FIELDS = ("extends", "read", "write", *_CHOICES, "copy_bytes")
_MAX_COPY_BYTES = 1 << 40
# Security: writing to any of these changes what trusted programs run.
_NEVER_WRITABLE: Final = frozenset(
    {"/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin"}
    | {"/sys", "/usr", "/var"}
)
_NEVER_WRITABLE_BELOW: Final = ("/proc/", "/sys/", "/dev/", "/boot/", "/etc/", "/run/")

BUILTIN_PROFILES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "workspace": {"read": ("$CWD",), "write": ("$CWD",)},
        "shell": {"extends": "workspace", "processes": "allowed"},
        "readonly": {"read": ("$CWD",)},
    }
)
BUILTIN_TOOLS: Final[Mapping[str, str]] = MappingProxyType(
    {"builtin/bash": "shell", "builtin/process": "shell"}
)


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """What a tool under this profile is granted.

    Args:
        read: Readable folders and files: ``$CWD``, ``$HOME`` or ``$CONFIG`` with an optional
            ``/rest``, or an absolute path. Lexically normal, no ``..``.
        write: The same, for reading and writing.
        network: ``none``, ``loopback`` or ``host``.
        processes: ``none`` or ``allowed``.
        tier: Least enforcement that is acceptable.
        isolation: ``pooled``, or ``fresh`` for a process per call.
        effects: ``declared``: what a tool describes is not checked. ``observed``: a call runs
            on a copy-on-write view and its changes are committed when it succeeds.
            ``enforced``: they are committed only if it described each of them.
        commit: ``success``, or with ``observed`` ``always``: commit also what a call changed
            that returned an error.
        copy_bytes: Where the host can't mount a view: copy the writable folders if their files
            take no more room than this, bytes. 0 refuses the call there.
        sandbox: ``none`` turns confinement off.
    """

    name: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: str = "none"
    processes: str = "none"
    tier: str = "baseline"
    isolation: str = "pooled"
    effects: str = "declared"
    commit: str = "success"
    copy_bytes: int = 0
    sandbox: str = "on"


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Profiles, and which tool runs under which.

    Args:
        default: Profile of tools that nothing else names.
        profiles: All profiles by name, the built-in ones included.
        tools: Identity or glob to profile name, as configured, in order.
    """

    default: str
    profiles: Mapping[str, ProfileSpec]
    tools: Mapping[str, str]

    def profile_name(self, identity: str) -> str:
        """Return the name of the profile that a tool runs under."""
        return self.configured(identity) or BUILTIN_TOOLS.get(identity) or self.default

    def configured(self, identity: str, *, prefix: str = "") -> str | None:
        """Return the profile that ``tools`` gives an identity, or ``None``.

        Args:
            prefix: Globs that do not begin so are passed over.
        """
        exact = self.tools.get(identity)
        if exact is not None:
            return exact
        found = None
        for glob, name in self.tools.items():
            if glob.startswith(prefix) and compile_glob(glob).match(identity):
                found = name
        return found

    def profile_for(self, identity: str) -> ProfileSpec:
        """Return the profile that a tool runs under."""
        return self.profiles[self.profile_name(identity)]


def check_sandbox(cursor: Cursor | None, warnings: list[str]) -> SandboxConfig:
    """Check the ``sandbox`` field, or give the built-in defaults for a missing one."""
    written: dict[str, dict[str, Any]] = {}
    places: dict[str, Cursor] = {}
    fields = cursor.fields(("default", "profiles", "tools")) if cursor is not None else None
    fields = fields or {}
    if "profiles" in fields:
        for name, item in fields["profiles"].members(PROFILE_NAME, "profile name"):
            if len(written) >= _MAX_PROFILES:
                fields["profiles"].fail(f"has over {_MAX_PROFILES} profiles")
                break
            places[name] = item
            written[name] = _check_profile(name, item, warnings)
    merged = {name: dict(own) for name, own in BUILTIN_PROFILES.items()}
    for name, own in written.items():
        merged[name] = {**merged.get(name, {}), **own}
    profiles = {name: _resolve(name, merged, places) for name in merged}
    tools = _check_tools(fields["tools"], profiles) if "tools" in fields else {}
    default = "workspace"
    if "default" in fields:
        default = _check_reference(fields["default"], profiles) or default
    for name in written:
        if profiles[name].sandbox == "none":
            warnings.append(f"sandbox profile {name!r} runs tools without any confinement")
    return SandboxConfig(default, MappingProxyType(profiles), MappingProxyType(tools))


def _check_reference(cursor: Cursor, profiles: Mapping[str, object]) -> str | None:
    name = cursor.string()
    if name is not None and name not in profiles:
        hint = did_you_mean(name, profiles)
        cursor.fail(f"unknown profile {shown(name)}{hint}; profiles: {', '.join(profiles)}")
        return None
    return name


def _check_tools(cursor: Cursor, profiles: Mapping[str, object]) -> dict[str, str]:
    out = {}
    for glob, item in cursor.members(_TOOL_GLOB, "tool identity"):
        if glob.startswith("mcp/"):
            # All tools of a server share its one process.
            item.fail("an MCP server's profile is mcp.servers.<server>.sandbox", at="key")
        name = _check_reference(item, profiles)
        if name is not None:
            out[glob] = name
    return out


def _check_profile(name: str, cursor: Cursor, warnings: list[str]) -> dict[str, Any]:
    fields = cursor.fields(_FIELDS)
    out: dict[str, Any] = {}
    for key, item in (fields or {}).items():
        if key == "extends":
            out[key] = item.string()
        elif key == "copy_bytes":
            out[key] = item.integer(0, _MAX_COPY_BYTES)
        elif key in _CHOICES:
            out[key] = _check_choice(key, item)
        else:
            out[key] = _check_grants(name, key, item, warnings)
    return {key: value for key, value in out.items() if value is not None}


def _check_choice(key: str, cursor: Cursor) -> str | None:
    word = cursor.choice(_CHOICES[key], key)
    if word is not None and (instead := _UNSUPPORTED.get((key, word))) is not None:
        cursor.fail(f"{key} {word!r} is not supported yet; {instead}")
        return None
    return word


def _check_grants(
    profile: str, access: str, cursor: Cursor, warnings: list[str]
) -> tuple[str, ...]:
    out: list[str] = []
    for item in cursor.items(max_items=_MAX_GRANTS):
        path = item.string(min_chars=1, max_chars=_MAX_GRANT_CHARS, one_line=True)
        normal = _check_path(item, path) if path is not None else None
        if normal is None:
            continue
        if access == "write" and _is_never_writable(normal):
            item.fail(f"{normal!r} can not be granted for writing; name a folder of your own")
        elif normal in ("/", "$HOME", "$CONFIG") or _holds_secrets(normal):
            warnings.append(f"sandbox profile {profile!r} grants {access} on all of {normal!r}")
        if normal not in out:
            out.append(normal)
    return tuple(out)


def _holds_secrets(path: str) -> bool:
    return path in ("/proc", "/root", "/home", "/etc", "/run", "/var") or path.startswith("/proc/")


def _is_never_writable(path: str) -> bool:
    return path in _NEVER_WRITABLE or path.startswith(_NEVER_WRITABLE_BELOW)


def _check_path(cursor: Cursor, path: str) -> str | None:
    """Return the one spelling of a granted path, so that equal grants look equal."""
    if path.startswith("~"):
        cursor.fail("'~' is not expanded; write $HOME")
        return None
    if any(c in path for c in "*?[]{}"):
        cursor.fail(f"{shown(path)} has glob characters; a grant is one folder or file")
        return None
    parts = path.split("/")
    if ".." in parts:
        cursor.fail(f"{shown(path)} has '..'; write the folder itself")
        return None
    head = parts[0]
    if "$" in path and (head not in _VARIABLES or path.count("$") > 1):
        cursor.fail(f"{shown(path)}: only a first component of {', '.join(_VARIABLES)} is expanded")
        return None
    rest = [part for part in parts if part not in ("", ".")]
    if path.startswith("/"):
        return "/" + "/".join(rest)
    if head in _VARIABLES:
        return "/".join(rest)
    return "/".join(("$CONFIG", *rest))


def _resolve(
    name: str, merged: Mapping[str, Mapping[str, Any]], places: Mapping[str, Cursor]
) -> ProfileSpec:
    chain: list[str] = []
    values: dict[str, Any] = {}
    current: str | None = name
    while current is not None:
        if current in chain:
            if name in places:
                shown_chain = " -> ".join((*chain, current))
                places[name].fail(f"extends itself: {shown_chain}", at="key")
            break
        chain.append(current)
        own = merged[current]
        values = {**own, **values}
        parent = own.get("extends")
        if parent is not None and parent not in merged:
            if current in places:
                hint = did_you_mean(parent, merged)
                places[current].child("extends").fail(
                    f"unknown profile {shown(parent)}{hint}; profiles: {', '.join(merged)}"
                )
            break
        current = parent
    values.pop("extends", None)
    if name in places:
        _check_effects(values, places[name], merged[name])
    if values.get("effects", "declared") != "declared":
        values["isolation"] = "fresh"
    return ProfileSpec(name=name, **values)


def _check_effects(values: Mapping[str, Any], place: Cursor, own: Mapping[str, Any]) -> None:
    """See that nothing in a profile contradicts its ``effects``."""

    def refuse(key: str, message: str) -> None:
        blamed = key if key in own else "effects" if "effects" in own else "extends"
        place.child(blamed).fail(message)

    effects = values.get("effects", "declared")
    if values.get("commit", "success") == "always" and effects != "observed":
        refuse("commit", f"commit 'always' needs effects 'observed'; they are {effects!r}")
    if effects == "declared":
        if values.get("copy_bytes"):
            refuse("copy_bytes", "copy_bytes needs effects 'observed' or 'enforced'")
        return
    if values.get("isolation") == "pooled":
        refuse(
            "isolation", f"isolation 'pooled' does not go with effects {effects!r}; leave it out"
        )
    if values.get("sandbox") == "none":
        refuse("sandbox", f"effects {effects!r} need the sandbox; it is 'none'")
