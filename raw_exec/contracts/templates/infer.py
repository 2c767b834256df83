"""Infer the input schema of a template from its tags and annotations.

Rules:

1. ``{{a.b}}`` wants an object ``a`` with ``b``. Without ``@type`` a variable may be anything.
2. A section with ``@type array`` or ``object`` opens a context: names in it belong to the
   elements or the object. ``{{.}}`` is the element itself; then other names in the section
   come from outside. A name without ``@type`` that is already known outside, and not inside,
   is the one outside, as Mustache looks it up.
3. A section with ``@type boolean`` opens no context. One with a scalar type is a gate: the
   input is that scalar, and optional.
4. An untyped section is an array when it uses ``{{.}}``; otherwise nothing can be said, its
   names are taken from outside, as optional, and a warning says so.
5. Everything is required unless one of its uses says ``@optional``.
6. ``{{> file}}`` wants what that file wants. Files that include each other are read once.

What cannot be inferred is a warning, never an error. The inferred schema is stored with the
file: clients hash it, so a published one must not change when this module does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import Invalid
from .parse import Directive, Node, Partial, Section, Variable

__all__ = ["Inferred", "infer_inputs"]

_SCALARS: Final = frozenset({"string", "integer", "number"})
_TYPES: Final = (*sorted(_SCALARS), "boolean", "object", "array")
_MAX_NODES: Final = 20_000
"""Tags read for one file, its partials included: files that include twice double each time."""

_MAX_WARNINGS: Final = 50


@dataclass(frozen=True, slots=True)
class Inferred:
    """The inputs of one file.

    Args:
        schema: JSON Schema of an object; ``None`` when nothing is wanted.
        warnings: ``{"path": …, "message": …}``, the path in the template's own notation.
    """

    schema: dict[str, Any] | None
    warnings: tuple[dict[str, str], ...]


@dataclass(slots=True)
class _Field:
    """What is known about one input, gathered from all of its uses."""

    path: str
    type: str | None = None
    doc: str | None = None
    is_optional: bool = False
    is_annotated: bool = False
    properties: dict[str, _Field] = field(default_factory=dict)
    items: _Field | None = None


@dataclass(slots=True)
class _Context:
    """What a section made current.

    Args:
        is_element: Whether the section uses ``{{.}}``, so that names come from outside.
    """

    field: _Field
    is_element: bool = False


def infer_inputs(name: str, files: Mapping[str, Sequence[Node]]) -> Inferred:
    """Infer what one file wants, with the files that it includes.

    Args:
        name: The file.
        files: Parsed files of the same version by name.

    Raises:
        Invalid: ``bad_template``, when inclusions multiply beyond any use.
    """
    inference = _Inference(files)
    root = _Field("", type="object")
    inference.read(files[name], [_Context(root)], (name,), is_optional=False)
    schema = _schema(root) if root.properties else None
    return Inferred(schema, tuple(inference.warnings[:_MAX_WARNINGS]))


class _Inference:
    def __init__(self, files: Mapping[str, Sequence[Node]]) -> None:
        self._files = files
        self._nodes = 0
        self.warnings: list[dict[str, str]] = []

    def warn(self, path: str, message: str) -> None:
        warning = {"path": path, "message": message}
        if warning not in self.warnings:
            self.warnings.append(warning)

    def read(
        self,
        nodes: Sequence[Node],
        contexts: list[_Context],
        chain: tuple[str, ...],
        *,
        is_optional: bool,
    ) -> None:
        """Take in some tags.

        Args:
            contexts: Innermost last.
            chain: The files that are being read, outermost first.
            is_optional: Whether new names are only wanted perhaps.
        """
        for node in nodes:
            self._nodes += 1
            if self._nodes > _MAX_NODES:
                raise Invalid(
                    "bad_template",
                    f"file {chain[0]!r} has more than {_MAX_NODES} tags with what it includes",
                    hint="include less",
                )
            match node:
                case Variable():
                    self._variable(node, contexts, is_optional)
                case Section():
                    self._section(node, contexts, chain, is_optional)
                case Partial():
                    self._partial(node, contexts, chain, is_optional)
                case Directive():
                    if node.word != "outputSchema":
                        self.warn(f"@{node.word}", f"line {node.line}: describes no variable")

    def _partial(
        self, node: Partial, contexts: list[_Context], chain: tuple[str, ...], is_optional: bool
    ) -> None:
        if node.name not in self._files:
            self.warn(f"> {node.name}", f"line {node.line}: there is no file of this name")
        elif node.name not in chain:
            self.read(
                self._files[node.name], contexts, (*chain, node.name), is_optional=is_optional
            )

    def _variable(self, node: Variable, contexts: list[_Context], is_optional: bool) -> None:
        annotation = self._annotation(node.name, node.directives)
        found = self._find(node.name, contexts, annotation.type is not None, is_optional)
        if found is not None:
            self._merge(found, annotation)

    def _section(
        self, node: Section, contexts: list[_Context], chain: tuple[str, ...], is_optional: bool
    ) -> None:
        annotation = self._annotation(node.name, node.directives)
        uses_dot = _uses_dot(node.children)
        kind = annotation.type
        if kind is None and uses_dot and not node.is_inverted:
            kind = annotation.type = "array"
        if kind in _SCALARS:
            annotation.is_optional = True
        found = self._find(node.name, contexts, kind is not None, is_optional)
        if found is None:
            return
        self._merge(found, annotation)
        kind = found.type
        inner = contexts
        if not node.is_inverted and kind == "array":
            found.items = found.items or _Field(f"{found.path}[]")
            inner = [*contexts, _Context(found.items, is_element=uses_dot)]
        elif not node.is_inverted and kind == "object":
            inner = [*contexts, _Context(found)]
        elif not node.is_inverted and kind is None:
            if any(isinstance(child, Variable | Section) for child in node.children):
                self.warn(
                    found.path,
                    f"line {node.line}: the section has no @type, so what its names belong to is "
                    f"not known; write {{{{@type array}}}} (or another type) after "
                    f"{{{{#{node.name}}}}}",
                )
            is_optional = True
        self.read(node.children, inner, chain, is_optional=is_optional)

    def _find(
        self, name: str, contexts: list[_Context], is_annotated: bool, is_optional: bool
    ) -> _Field | None:
        if name == ".":
            if len(contexts) == 1:
                self.warn(".", "stands outside of any section, so it is the whole input")
                return None
            return contexts[-1].field
        first, *rest = name.split(".")
        holder = self._holder(first, contexts, is_annotated)
        found = self._child(holder, first, is_optional)
        for part in rest:
            if found.type not in {None, "object"}:
                self.warn(found.path, f"is used as {found.type} and as an object with {part!r}")
                return None
            found.type = "object"
            found = self._child(found, part, is_optional)
        return found

    def _holder(self, first: str, contexts: list[_Context], is_annotated: bool) -> _Field:
        usable = [one.field for one in contexts if not one.is_element]
        innermost = usable[-1]
        if first in innermost.properties or is_annotated:
            return innermost
        for outer in reversed(usable[:-1]):
            if first in outer.properties:
                return outer
        return innermost

    def _child(self, holder: _Field, name: str, is_optional: bool) -> _Field:
        if holder.type is None:
            holder.type = "object"
        found = holder.properties.get(name)
        if found is None:
            path = f"{holder.path}.{name}" if holder.path else name
            found = holder.properties[name] = _Field(path, is_optional=is_optional)
        elif not is_optional and found.is_optional and not found.is_annotated:
            # Wanted here without condition; so far only uncertain sections mentioned it.
            found.is_optional = False
        return found

    def _annotation(self, name: str, directives: Sequence[Directive]) -> _Field:
        annotation = _Field(name)
        for one in directives:
            if one.word == "type":
                if one.argument in _TYPES:
                    annotation.type = one.argument
                else:
                    self.warn(
                        name,
                        f"line {one.line}: {one.argument!a:.40} is no type; "
                        f"use one of {', '.join(_TYPES)}",
                    )
            elif one.word == "doc":
                annotation.doc = one.argument
            elif one.word == "optional":
                annotation.is_optional = True
            else:
                self.warn(name, f"line {one.line}: @{one.word!a:.40} is no annotation")
        return annotation

    def _merge(self, found: _Field, annotation: _Field) -> None:
        if annotation.type is not None and found.type not in {None, annotation.type}:
            self.warn(
                found.path, f"is annotated as {annotation.type} here and as {found.type} elsewhere"
            )
        else:
            found.type = annotation.type or found.type
        if annotation.is_optional:
            found.is_optional = found.is_annotated = True
        found.doc = found.doc or annotation.doc


def _uses_dot(nodes: Sequence[Node]) -> bool:
    """Return whether ``{{.}}`` in these tags means the section around them."""
    for node in nodes:
        if isinstance(node, Variable | Section) and node.name == ".":
            return True
        if isinstance(node, Section) and _opens_nothing(node) and _uses_dot(node.children):
            return True
    return False


def _opens_nothing(section: Section) -> bool:
    kinds = {one.argument for one in section.directives if one.word == "type"}
    return section.is_inverted or not kinds & {"array", "object"}


def _schema(found: _Field) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if found.type is not None:
        schema["type"] = found.type
    if found.doc is not None:
        schema["description"] = found.doc
    if found.type == "object" and found.properties:
        schema["properties"] = {name: _schema(one) for name, one in found.properties.items()}
        required = [name for name, one in found.properties.items() if not one.is_optional]
        if required:
            schema["required"] = required
    if found.type == "array" and found.items is not None:
        items = _schema(found.items)
        if items:
            schema["items"] = items
    return schema
