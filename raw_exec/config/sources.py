"""Check ``vars``, ``var_providers`` and ``contracts``: where data comes from.

Security: nothing here echoes a value; ``vars.<name>.source.value`` holds secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..fields import Cursor, did_you_mean, shown, type_name
from ..values import freeze
from .model import ContractsConfig, ProviderConfig, VarConfig, VarSource

__all__ = [
    "BUILTIN_PROVIDERS",
    "ENV_NAME",
    "check_args",
    "check_contracts",
    "check_providers",
    "check_url",
    "check_vars",
    "has_type",
    "number_field",
    "text_field",
]

BUILTIN_PROVIDERS: Final = ("system.time",)
VAR_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
    "json": (object,),
}
_MAX_MEMBERS = 4096
_MAX_DESCRIPTION_CHARS = 4096
_MAX_PATH_CHARS = 4096
_MAX_ARGS = 1024
_MAX_ARG_CHARS = 128 * 1024
_MAX_TTL_MS = 24 * 60 * 60 * 1000
_MAX_TIMEOUT_MS = 10 * 60 * 1000
_MAX_PROVIDER_BYTES = 1024 * 1024
_SOURCE_FIELDS: Final = {
    "literal": ("value",),
    "env": ("name",),
    "file": ("path",),
    "provider": ("name",),
}
_SOURCE_OPTIONAL: Final = {"file": ("format",), "provider": ("params",)}


def text_field(
    fields: Mapping[str, Cursor], key: str, max_chars: int = _MAX_PATH_CHARS
) -> str | None:
    """Check a field of one line of text; ``None`` without it."""
    if key not in fields:
        return None
    return fields[key].string(min_chars=1, max_chars=max_chars, one_line=True)


def number_field(fields: Mapping[str, Cursor], key: str, low: int, high: int, default: int) -> int:
    """Check an integer field within bounds; ``default`` without it."""
    if key not in fields:
        return default
    value = fields[key].integer(low, high)
    return default if value is None else value


def check_args(fields: Mapping[str, Cursor]) -> tuple[str, ...]:
    """Check an argument vector: any text without NUL, which no executable can be given."""
    if "args" not in fields:
        return ()
    out = []
    for item in fields["args"].items(max_items=_MAX_ARGS):
        text = item.string(max_chars=_MAX_ARG_CHARS)
        if text is not None and "\0" in text:
            item.fail("must not contain NUL")
        elif text is not None:
            out.append(text)
    return tuple(out)


# ---------------------------------------------------------------- variables


def check_vars(cursor: Cursor, providers: Mapping[str, object]) -> dict[str, VarConfig]:
    """Check the ``vars`` object; ``providers`` are the configured provider names."""
    out: dict[str, VarConfig] = {}
    for name, item in cursor.members(VAR_NAME, "variable name"):
        if len(out) >= _MAX_MEMBERS:
            cursor.fail(f"has over {_MAX_MEMBERS} variables")
            break
        var = _check_var(name, item, providers)
        # A variable that is wrong still exists: an agent that lists it is not wrong too.
        out[name] = var or VarConfig(name, "", "use", VarSource("literal"))
    return out


def _check_var(name: str, cursor: Cursor, providers: Mapping[str, object]) -> VarConfig | None:
    allowed = ("description", "access", "type", "cache_ttl_ms", "source")
    fields = cursor.fields(allowed, ("description", "access", "source"))
    if fields is None:
        return None
    description = None
    if "description" in fields:
        description = fields["description"].string(min_chars=1, max_chars=_MAX_DESCRIPTION_CHARS)
    access = fields["access"].choice(("read", "use"), "access") if "access" in fields else None
    kind = fields["type"].choice(tuple(_TYPES), "type") if "type" in fields else None
    ttl = number_field(fields, "cache_ttl_ms", 0, _MAX_TTL_MS, 0)
    source = _check_source(fields["source"], providers) if "source" in fields else None
    if source is not None and source.kind == "literal" and kind is not None:
        value = fields["source"].child("value")
        if not has_type(value.value, kind):
            value.fail(f"must be of the declared type {kind!r}, not {type_name(value.value)}")
    if description is None or access is None or source is None:
        return None
    return VarConfig(name, description, access, source, kind, ttl)


def has_type(value: Any, kind: str) -> bool:
    """Return whether a JSON value is of a declared type of variables."""
    if kind == "json":
        return True
    # A bool is an int to Python, and no number.
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")


def _check_source(cursor: Cursor, providers: Mapping[str, object]) -> VarSource | None:
    if not isinstance(cursor.value, dict) or "kind" not in cursor.value:
        cursor.fields(("kind",), ("kind",))
        return None
    kind = cursor.child("kind").choice(tuple(_SOURCE_FIELDS), "source kind")
    if kind is None:
        return None
    required = ("kind", *_SOURCE_FIELDS[kind])
    fields = cursor.fields((*required, *_SOURCE_OPTIONAL.get(kind, ())), required) or {}
    if any(key not in fields for key in required):
        return None
    if kind == "literal":
        return VarSource(kind, value=freeze(fields["value"].value))
    if kind == "env":
        env_name = fields["name"].name(ENV_NAME, "environment variable")
        return VarSource(kind, name=env_name) if env_name else None
    if kind == "file":
        path = text_field(fields, "path")
        form = "text"
        if "format" in fields:
            form = fields["format"].choice(("text", "json"), "format") or form
        return VarSource(kind, path=path, format=form) if path else None
    return _check_provider_source(fields, providers)


def _check_provider_source(
    fields: Mapping[str, Cursor], providers: Mapping[str, object]
) -> VarSource | None:
    name = fields["name"].string()
    known = (*BUILTIN_PROVIDERS, *providers)
    if name is not None and name not in known:
        hint = did_you_mean(name, known)
        fields["name"].fail(f"unknown provider {shown(name)}{hint}; providers: {', '.join(known)}")
        return None
    params: Any = {}
    if "params" in fields:
        params = fields["params"].value
        if not isinstance(params, dict):
            fields["params"].wrong_type("an object")
            return None
    return VarSource("provider", name=name, params=freeze(params)) if name else None


def check_providers(cursor: Cursor) -> dict[str, ProviderConfig]:
    """Check the ``var_providers`` object."""
    out: dict[str, ProviderConfig] = {}
    allowed = ("command", "args", "cwd", "timeout_ms", "max_output_bytes")
    for name, item in cursor.members(VAR_NAME, "provider name"):
        if len(out) >= _MAX_MEMBERS:
            cursor.fail(f"has over {_MAX_MEMBERS} providers")
            break
        if name in BUILTIN_PROVIDERS:
            item.fail(f"{name!r} is built in and can not be redefined", at="key")
        fields = item.fields(allowed, ("command",)) or {}
        out[name] = ProviderConfig(
            name=name,
            command=text_field(fields, "command") or "",
            args=check_args(fields),
            cwd=text_field(fields, "cwd"),
            timeout_ms=number_field(fields, "timeout_ms", 1, _MAX_TIMEOUT_MS, 5000),
            max_output_bytes=number_field(
                fields, "max_output_bytes", 1, _MAX_PROVIDER_BYTES, 65536
            ),
        )
    return out


# ---------------------------------------------------------------- contracts


def check_url(cursor: Cursor) -> str | None:
    """Check an http or https URL that names no user."""
    url = cursor.string(min_chars=1, max_chars=2048, one_line=True)
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        cursor.fail("is not a URL")
        return None
    if parts.scheme not in ("http", "https") or not host:
        cursor.fail("must be an http or https URL with a host")
        return None
    if parts.username is not None or parts.password is not None:
        cursor.fail("must not contain a user name or password")
        return None
    return url


def check_contracts(cursor: Cursor) -> ContractsConfig:
    """Check the ``contracts`` object."""
    fields = cursor.fields(("registry", "store")) or {}
    return ContractsConfig(
        registry=check_url(fields["registry"]) if "registry" in fields else None,
        store=text_field(fields, "store"),
    )
