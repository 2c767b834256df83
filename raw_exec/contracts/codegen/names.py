"""Names in generated code: from the registry's references, unique, and the same every time."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from typing import Final

from .model import GenerationError

__all__ = ["Namespace", "pascal", "python_fields", "split_ref", "tool_base", "version_suffix"]

_BREAKS: Final = re.compile(r"[^A-Za-z0-9]+")
_NOT_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_MODEL_METHODS: Final = frozenset(
    {
        "construct",
        "copy",
        "dict",
        "from_orm",
        "json",
        "parse_file",
        "parse_obj",
        "parse_raw",
        "schema",
        "schema_json",
        "update_forward_refs",
        "validate",
    }
)
"""Public names of pydantic's ``BaseModel`` that do not start with ``model_``."""

_MODEL_PREFIXES: Final = (
    "model_computed_fields",
    "model_config",
    "model_construct",
    "model_copy",
    "model_dump",
    "model_extra",
    "model_fields",
    "model_json_schema",
    "model_parametrized_name",
    "model_post_init",
    "model_rebuild",
    "model_validate",
)
"""Beginnings of its other public names; pydantic warns of anything that starts so."""

_USED_IN_MODELS: Final = frozenset(
    {
        "Annotated",
        "Any",
        "BaseModel",
        "BeforeValidator",
        "ConfigDict",
        "Field",
        "Literal",
        "StrictBool",
        "StrictStr",
        "WrapValidator",
        "classmethod",
        "float",
        "int",
        "list",
        "model_validator",
        "str",
    }
)
"""Names that annotations in a class body need: a field of that name would hide them."""


def pascal(text: str) -> str:
    """Return the words of a name run together, each with a capital."""
    return "".join(word[:1].upper() + word[1:] for word in _BREAKS.split(text))


def split_ref(ref: str) -> tuple[str, str]:
    """Return workspace and name of ``@workspace/name``.

    Raises:
        GenerationError: ``bad_ref``.
    """
    match = re.fullmatch(r"@([A-Za-z][A-Za-z0-9_-]*)/([A-Za-z][A-Za-z0-9._-]*)", ref)
    if match is None:
        raise GenerationError(
            "bad_ref", f"{ref!a:.90} is no reference", hint="write @workspace/name"
        )
    return match[1], match[2]


def tool_base(ref: str) -> str:
    """Return ``VendorWebSearch`` for ``@vendor/web-search``."""
    workspace, name = split_ref(ref)
    return pascal(workspace) + pascal(name)


def version_suffix(version: str) -> str:
    """Return ``V1_2_0`` for ``1.2.0``."""
    return "V" + "_".join(_BREAKS.split(version))


class Namespace:
    """The names of one generated file.

    Args:
        taken: Names that the file needs for itself.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._owners: dict[str, str] = dict.fromkeys(taken, "the generated code itself")

    def claim(self, name: str, owner: str) -> str:
        """Take a name that users will write.

        Raises:
            GenerationError: ``name_collision``.
        """
        other = self._owners.setdefault(name, owner)
        if other != owner:
            raise GenerationError(
                "name_collision",
                f"{other} and {owner} would both be called {name!r}",
                hint="rename one of them, or add the prompt under another name",
            )
        return name

    def invent(self, name: str) -> str:
        """Take a name for a part of something, with a number when it is taken."""
        wanted = name
        number = 2
        while wanted in self._owners:
            wanted = f"{name}{number}"
            number += 1
        self._owners[wanted] = "a part"
        return wanted

    def __contains__(self, name: str) -> bool:
        return name in self._owners


def python_fields(names: Iterable[str], namespace: Namespace) -> dict[str, str]:
    """Return an attribute name for each property name; most stay as they are.

    ``class`` becomes ``class_``, ``with-dash`` ``with_dash``, ``1st`` ``field_1st``.
    """
    wanted = list(names)
    found: dict[str, str] = {}
    used: set[str] = set()
    # Names that can stay go first, so that "a-b" never takes the name of "a_b".
    for keep in (True, False):
        for name in wanted:
            attribute = _attribute(name, namespace)
            if (attribute == name) is not keep:
                continue
            unique = attribute
            number = 2
            while unique in used:
                unique = f"{attribute}_{number}"
                number += 1
            used.add(unique)
            found[name] = unique
    return {name: found[name] for name in wanted}


def _attribute(name: str, namespace: Namespace) -> str:
    plain = _NOT_NAME.sub("_", name).lstrip("_")
    if not plain or plain[0].isdigit() or plain.startswith(_MODEL_PREFIXES):
        plain = f"field_{plain}"
    hidden = plain in _MODEL_METHODS or plain in _USED_IN_MODELS or plain in namespace
    if keyword.iskeyword(plain) or hidden:
        plain += "_"
    return plain
