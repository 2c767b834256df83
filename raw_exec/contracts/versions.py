"""Versions and constraints.

Published versions are plain ``x.y.z``. A draft has a label that sorts after the last
publication, ``x.y.z-draft.0``.

Constraints have the syntax of Masterminds/semver, which the public CLI parses with before
it sends them: comparators joined by spaces or commas (and), ``||`` (or), hyphen ranges, and
the operators ``= != > < >= => <= =< ~ ~> ^``. This module only respells them; whether a
version satisfies a range is decided by node-semver. ``!=``, which npm's syntax lacks, is a
range that the version must not be in.

Two readings differ from Masterminds, both on purpose: ``~0.0.0`` is ``>=0.0.0 <0.1.0``, as
in npm, and not every version there is; and the empty constraint is refused, as the CLI does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import nodesemver

from .errors import Invalid

__all__ = [
    "DRAFT",
    "Constraint",
    "Version",
    "check_constraint",
    "check_version",
    "draft_label",
    "is_label",
    "is_plain",
    "parse_constraint",
]

DRAFT: Final = "draft"
"""The word that names an entity's open draft, whatever its label."""

_MAX_CONSTRAINT_CHARS: Final = 256
_MAX_DIGITS: Final = 9
"""Of one number of a version, so that each fits any database's integer."""

_NUMBER = rf"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS - 1}}})"
_PART = rf"(?:{_NUMBER}|[xX*])"
_SUFFIX = r"(?:-[0-9A-Za-z.-]{1,64})?(?:\+[0-9A-Za-z.-]{1,64})?"
_OPERAND = rf"v?(?P<operand>{_PART}(?:\.{_PART}){{0,2}}{_SUFFIX})"
_PLAIN = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})")
_LABEL = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}-draft\.{_NUMBER}")
_COMPARATOR = re.compile(rf"(?P<op>!=|>=|=>|<=|=<|~>|[=<>~^]|)\s*{_OPERAND}(?![0-9A-Za-z.*+-])")
_HYPHEN = re.compile(rf"\s*{_OPERAND}\s+-\s+{_OPERAND.replace('operand', 'upper')}\s*")
_BETWEEN = re.compile(r"\s*,\s*|\s+|\Z")
_RESPELLED: Final = {"=>": ">=", "=<": "<=", "~>": "~", "=": ""}


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A plain ``x.y.z``."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read the number of a publication.

        Raises:
            Invalid: ``version_number``, for anything but a plain ``x.y.z``.
        """
        match = _PLAIN.fullmatch(text)
        if match is None:
            raise Invalid(
                "version_number",
                f"version {text[:80]!a} is not a plain x.y.z version",
                hint="write three numbers without leading zeros, for example 1.2.0",
            )
        return cls(*(int(part) for part in match.groups()))


@dataclass(frozen=True, slots=True)
class _Group:
    """Comparators that must all hold.

    Args:
        inside: One range in npm's syntax.
        outside: Ranges that the version must not be in.
    """

    inside: str
    outside: tuple[str, ...]

    def matches(self, version: str) -> bool:
        return _satisfies(version, self.inside) and not any(
            _satisfies(version, one) for one in self.outside
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that parsed. ``text`` is what was written."""

    text: str
    groups: tuple[_Group, ...]

    def matches(self, version: str) -> bool:
        """Return whether one version satisfies the constraint."""
        return any(group.matches(version) for group in self.groups)

    def best(self, versions: Iterable[str]) -> str | None:
        """Return the highest plain version that satisfies the constraint."""
        for version in sorted(versions, key=Version.parse, reverse=True):
            if self.matches(version):
                return version
        return None


def _satisfies(version: str, npm_range: str) -> bool:
    return bool(nodesemver.satisfies(version, npm_range, False))


@lru_cache(maxsize=1024)
def parse_constraint(text: str) -> Constraint:
    """Read a constraint. ``draft`` is none: whoever accepts the word looks for it first.

    Raises:
        Invalid: ``bad_constraint``.
    """
    shown = ascii(text[:80])
    if len(text) > _MAX_CONSTRAINT_CHARS:
        raise Invalid(
            "bad_constraint",
            f"version constraint {shown} … has {len(text)} characters",
            hint=f"use at most {_MAX_CONSTRAINT_CHARS}",
        )
    groups = tuple(_group(part) for part in text.split("||"))
    if any(group is None for group in groups):
        raise Invalid(
            "bad_constraint",
            f"version constraint {shown} can not be read",
            hint="write for example 1.2.0, ^1.2.0, ~1.2, >=1.0.0 <2.0.0, * or draft",
        )
    return Constraint(text, tuple(group for group in groups if group is not None))


def _group(text: str) -> _Group | None:
    hyphen = _HYPHEN.fullmatch(text)
    if hyphen:
        return _Group(f">={hyphen['operand']} <={hyphen['upper']}", ())
    rest = text.strip()
    inside: list[str] = []
    outside: list[str] = []
    while rest:
        match = _COMPARATOR.match(rest)
        if match is None:
            return None
        if match["op"] == "!=":
            outside.append(match["operand"])
        else:
            inside.append(_RESPELLED.get(match["op"], match["op"]) + match["operand"])
        gap = _BETWEEN.match(rest, match.end())
        if gap is None or ("," in gap[0] and gap.end() == len(rest)):
            return None
        rest = rest[gap.end() :]
    if not inside and not outside:
        return None
    return _Group(" ".join(inside) or "*", tuple(outside))


def is_plain(text: str) -> bool:
    """Return whether a text is the number of a publication."""
    return _PLAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Return whether a text looks like a draft's label."""
    return _LABEL.fullmatch(text) is not None


def check_constraint(text: str) -> str:
    """Return what may stand after the ``@`` of a reference: ``draft``, a label or a constraint.

    Raises:
        Invalid: ``bad_constraint``.
    """
    if text != DRAFT and not is_label(text):
        parse_constraint(text)
    return text


def check_version(text: str) -> str:
    """Return a concrete version: the number of a publication, or a draft's label.

    Raises:
        Invalid: ``version_number``.
    """
    if not is_label(text):
        Version.parse(text)
    return text


def draft_label(latest: Version | None) -> str:
    """Return the label of the draft that follows a publication, or of the first one."""
    base = Version(0, 0, 1) if latest is None else Version(*_next_patch(latest))
    return f"{base}-draft.0"


def _next_patch(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch + 1
