"""A schema in the part of the language that a provider reads, or why that can't be.

What is kept to:

1. The shape is never changed: whatever the tool accepts can still be sent. A keyword that
   says something about shape and can't be said is a problem with a pointer, never dropped.
2. A limit on one value that can't be said as a keyword (``minLength``, say) is said in the
   description. The tool's own schema is checked at every call all the same.
3. A strict provider sends no properties that are not declared, where the tool would ignore
   them; where the tool takes them on purpose, that is a problem.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import Problem
from ..schema import CompiledSchema
from ..schema.nodes import Edge, Node
from ..values import escape_pointer, thaw
from .disjoint import admits_null, are_disjoint, target_of, type_of
from .restoring import Branch, Restoration

__all__ = ["Subset", "SubsetRules", "project_subset"]

_ANNOTATIONS: Final = frozenset(
    {
        "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
        "$comment", "$schema", "$id", "$anchor", "$defs", "definitions", "format",
        "contentEncoding", "contentMediaType", "contentSchema",
    }
)  # fmt: skip
_TOLD: Final = (
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minContains",
    "maxContains", "minProperties", "maxProperties", "default",
)  # fmt: skip
_SHAPE: Final = {
    "not": "describe what is accepted instead",
    "if": "write the cases as an anyOf, or check them in validateArgs",
    "dependentSchemas": "check it in validateArgs",
    "dependentRequired": "check it in validateArgs",
    "dependencies": "check it in validateArgs",
    "patternProperties": "use a list of objects with a name and a value",
    "propertyNames": "use a list of objects with a name and a value",
    "contains": "check it in validateArgs",
    "prefixItems": "use an object with a property for each place",
    "additionalItems": "use an object with a property for each place",
    "unevaluatedItems": "use 'items'",
    "unevaluatedProperties": "use 'additionalProperties'",
}
_MAX_SIZE: Final = 200_000
_SCALARS: Final = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class SubsetRules:
    """What a provider's language is.

    Args:
        kept: Limits that it knows.
        strict: Every object closed, every property required.
        inline: References are replaced by what they lead to.
        formats: Values of ``format`` that it knows.
        property_name: What a property may be called.
        max_depth: Objects and arrays inside each other.
        max_properties: In all.
    """

    kept: frozenset[str]
    strict: bool
    inline: bool
    formats: frozenset[str]
    property_name: re.Pattern[str]
    max_depth: int
    max_properties: int


@dataclass
class Subset:
    """The result: a schema without problems, or problems.

    Args:
        schema: What to send.
        problems: Each with a pointer into the input schema, and advice in its message.
        told: Pointers of limits that are said in words.
        restoration: The way back for arguments.
    """

    schema: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    restoration: Restoration = field(default_factory=Restoration)


def project_subset(schema: CompiledSchema, rules: SubsetRules) -> Subset:
    """Project the input schema of a tool, whose root is an object."""
    writer = _Writer(rules)
    out, restoration = writer.write(schema.root, 0)
    result = writer.result
    result.problems = list(dict.fromkeys(result.problems))
    result.told = list(dict.fromkeys(result.told))
    if not result.problems and writer.properties > rules.max_properties:
        message = f"has {writer.properties} properties; the limit is {rules.max_properties}"
        result.problems.append(Problem("", message))
    if writer.definitions:
        out = {**out, "$defs": writer.definitions}
    result.schema, result.restoration = out, restoration
    return result


class _Writer:
    def __init__(self, rules: SubsetRules) -> None:
        self.rules = rules
        self.result = Subset()
        self.definitions: dict[str, Any] = {}
        self.properties = 0
        self._names: dict[int, str] = {}
        self._restorations: dict[str, Restoration] = {}
        self._path: list[Node] = []
        self._size = 0

    # ------------------------------------------------------------ one subschema

    def write(self, node: Node, depth: int) -> tuple[dict[str, Any], Restoration]:
        schema = node.schema
        self._size += 1
        if self._size > _MAX_SIZE:
            self._problem(node, "", "has too many subschemas once references are resolved")
            return {}, Restoration()
        if depth > self.rules.max_depth:
            self._problem(node, "", f"is nested deeper than {self.rules.max_depth} levels")
            return {}, Restoration()
        if not isinstance(schema, dict):
            what = "nothing fits 'false'; leave it out" if schema is False else "give it a 'type'"
            if schema is False or self.rules.strict:
                self._problem(node, "", f"is a boolean schema; {what}")
            return {}, Restoration()
        if target_of(node) is not None:
            return self._reference(node, depth)
        merged = self._without_single_all_of(node)
        if merged is not None:
            return self.write(merged, depth)
        return self._plain(node, depth)

    def _plain(self, node: Node, depth: int) -> tuple[dict[str, Any], Restoration]:
        schema: dict[str, Any] = node.schema
        out: dict[str, Any] = {}
        for keyword in ("title", "description"):
            if isinstance(schema.get(keyword), str):
                out[keyword] = schema[keyword]
        self._refuse_shapes(node)
        restoration = self._alternatives(node, out, depth)
        if restoration is not None:
            return self._finish(node, out), restoration
        restoration = Restoration()
        self._values(node, out)
        self._type(node, out)
        if self._may_be(node, "object"):
            self._object(node, out, restoration, depth)
        if self._may_be(node, "array"):
            self._array(node, out, restoration, depth)
        return self._finish(node, out), restoration

    def _finish(self, node: Node, out: dict[str, Any]) -> dict[str, Any]:
        said = []
        for keyword in _TOLD:
            if keyword not in node.schema:
                continue
            value = thaw(node.schema[keyword])
            kept = keyword in self.rules.kept or (
                keyword == "format" and value in self.rules.formats
            )
            if kept:
                out[keyword] = value
            else:
                said.append(f"{keyword}: {json.dumps(value, ensure_ascii=False)}")
                if keyword not in ("format", "default"):  # these check nothing
                    self.result.told.append(f"{node.pointer}/{keyword}")
        if said:
            words = f"({', '.join(said)})"
            out["description"] = f"{out['description']} {words}" if "description" in out else words
        return out

    def _refuse_shapes(self, node: Node) -> None:
        schema = node.schema
        for keyword, advice in _SHAPE.items():
            if keyword not in schema or _says_nothing(keyword, schema):
                continue
            self._problem(node, f"/{keyword}", f"{keyword!r} can't be said here; {advice}")
        if isinstance(schema.get("items"), list):
            advice = _SHAPE["prefixItems"]
            self._problem(node, "/items", f"a list of 'items' can't be said here; {advice}")
        if len(schema.get("allOf", ())) > 0:
            self._problem(node, "/allOf", "'allOf' can't be said here; write it as one schema")

    # ------------------------------------------------------------ references, branches

    def _reference(self, node: Node, depth: int) -> tuple[dict[str, Any], Restoration]:
        target = target_of(node)
        assert target is not None  # noqa: S101  (only then is this called)
        beside = [key for key in node.schema if key not in _ANNOTATIONS and key != "$ref"]
        if node.pointer == "":
            beside = [key for key in beside if key != "type"]
        if beside:
            self._problem(
                node, f"/{beside[0]}", "nothing can stand beside '$ref' here; write it as one"
            )
            return {}, Restoration()
        if self.rules.inline or node.pointer == "":
            return self._inline(node, target, depth)
        name = self._names.get(id(target))
        if name is None:
            name = self._names[id(target)] = self._definition_name(target)
            self.definitions[name] = {}
            # A definition may be used at any depth; only its own levels are counted.
            written, plan = self.write(target, min(depth, 1))
            self.definitions[name], self._restorations[name] = written, plan
        known = name
        return {"$ref": f"#/$defs/{known}"}, Restoration(target=lambda: self._restorations[known])

    def _inline(self, node: Node, target: Node, depth: int) -> tuple[dict[str, Any], Restoration]:
        if any(other is target for other in self._path) or target.pointer == "":
            steps = [*(n.pointer or "#" for n in self._path), target.pointer or "#"]
            cycle = " → ".join(steps[steps.index(target.pointer or "#") :] if self._path else steps)
            self._problem(
                node,
                "/$ref",
                f"is recursive ({cycle}), and this provider takes no references; "
                "limit it to a number of levels, or take it as a list with parent IDs",
            )
            return {}, Restoration()
        self._path.append(target)
        out, restoration = self.write(target, depth)
        self._path.pop()
        for keyword in ("title", "description"):
            if isinstance(node.schema.get(keyword), str):
                out = {**out, keyword: node.schema[keyword]}
        return out, restoration

    def _definition_name(self, target: Node) -> str:
        last = re.sub(r"[^A-Za-z0-9_]", "_", target.pointer.rpartition("/")[2]) or "root"
        name, number = last, 2
        while name in self.definitions:
            name, number = f"{last}_{number}", number + 1
        return name

    def _without_single_all_of(self, node: Node) -> Node | None:
        """Merge an ``allOf`` of one into what stands beside it, where that means the same."""
        branches = [edge for edge in node.edges if edge.keyword == "allOf"]
        if len(branches) != 1 or not isinstance(branches[0].target.schema, dict):
            return None
        inner = branches[0].target
        outer = {key: value for key, value in node.schema.items() if key != "allOf"}
        if any(key not in _ANNOTATIONS and key != "type" for key in outer):
            return None
        if target_of(inner) is not None:
            if "type" in outer and node.pointer:
                return None
        elif "type" in outer and inner.schema.get("type", outer["type"]) != outer["type"]:
            return None
        schema = {**inner.schema, **outer}
        return Node(node.pointer, schema, list(inner.edges))

    def _alternatives(self, node: Node, out: dict[str, Any], depth: int) -> Restoration | None:
        keyword = "anyOf" if "anyOf" in node.schema else "oneOf"
        branches = [edge.target for edge in node.edges if edge.keyword == keyword]
        if not branches:
            return None
        if node.pointer == "":
            advice = "check it in validateArgs, or put it into a property"
            self._problem(node, f"/{keyword}", f"{keyword!r} can't stand at the root; {advice}")
            return Restoration()
        beside = [
            key
            for key in node.schema
            if key not in _ANNOTATIONS and key not in (keyword, *_TOLD, *_SHAPE, "allOf")
        ]
        named = node.schema.get("type")
        if beside == ["type"] and all(_named_type(branch) == named for branch in branches):
            beside = []
        if beside:
            self._problem(
                node, f"/{keyword}", f"{beside[0]!r} can't stand beside it; put it into each case"
            )
        if keyword == "oneOf" and not _all_disjoint(branches):
            self._problem(
                node,
                "/oneOf",
                "that only one case fits can't be said here; use 'anyOf', or give the cases "
                "a required property whose 'const' tells them apart",
            )
        written = [self.write(branch, depth) for branch in branches]
        out["anyOf"] = [schema for schema, _ in written]
        if not self.rules.strict:
            return Restoration()
        return Restoration(
            branches=tuple(Branch(schema, self.definitions, plan) for schema, plan in written)
        )

    # ------------------------------------------------------------ values and types

    def _values(self, node: Node, out: dict[str, Any]) -> None:
        schema = node.schema
        if "const" not in schema and "enum" not in schema:
            return
        keyword = "const" if "const" in schema else "enum"
        values = [schema["const"]] if keyword == "const" else list(schema["enum"])
        if any(not isinstance(value, _SCALARS) for value in values):
            self._problem(
                node, f"/{keyword}", "only text, numbers, booleans and null can be values here"
            )
            return
        if keyword == "const" and "enum" in schema:
            self._problem(node, "/enum", "can't stand beside 'const'; remove one")
        out["enum"] = values
        if "type" not in schema:
            kinds = sorted({type_of(value) for value in values})
            out["type"] = kinds[0] if len(kinds) == 1 else kinds

    def _type(self, node: Node, out: dict[str, Any]) -> None:
        if "type" in node.schema:
            named = thaw(node.schema["type"])
            out["type"] = named[0] if isinstance(named, list) and len(named) == 1 else named
        elif "type" not in out and self.rules.strict:
            self._problem(node, "", "has no 'type'; give it one")

    def _may_be(self, node: Node, kind: str) -> bool:
        named = node.schema.get("type")
        if named is None:
            # Without a type these keywords count for this kind of value only.
            return kind == "object" and "properties" in node.schema
        return named == kind or (isinstance(named, list) and kind in named)

    # ------------------------------------------------------------ objects and arrays

    def _object(
        self, node: Node, out: dict[str, Any], restoration: Restoration, depth: int
    ) -> None:
        schema, strict = node.schema, self.rules.strict
        declared: list[Edge] = [e for e in node.edges if e.keyword == "properties"]
        required = list(schema.get("required", ()))
        names = {str(edge.key) for edge in declared}
        for name in required:
            if name not in names:
                self._problem(
                    node, "/required", f"{name!r:.80} is required but not declared; declare it"
                )
        self._openness(node, out, declared, depth)
        properties: dict[str, Any] = {}
        absent = set()
        for edge in declared:
            name = str(edge.key)
            pointer = f"/properties/{escape_pointer(name)}"
            if self.rules.property_name.fullmatch(name) is None:
                self._problem(node, pointer, "has a name that this provider refuses; rename it")
            written, plan = self.write(edge.target, depth + 1)
            self.properties += 1
            restoration.properties[name] = plan
            if strict and name not in required:
                if admits_null(edge.target) and not _defaults_to_null(edge.target):
                    self._problem(
                        node,
                        pointer,
                        "is optional and may be null, and a strict provider can say one of the "
                        'two only; require it, or forbid null, or say "default": null',
                    )
                written = _nullable(written)
                absent.add(name)
            properties[name] = written
        if properties or strict or "properties" in schema:
            out["properties"] = properties
        if strict:
            out["required"] = list(properties)
        elif required:
            out["required"] = required
        restoration.absent = frozenset(absent)

    def _openness(self, node: Node, out: dict[str, Any], declared: list[Edge], depth: int) -> None:
        extra = next((e.target for e in node.edges if e.keyword == "additionalProperties"), None)
        free = extra is not None and extra.schema is not False
        if self.rules.strict:
            out["additionalProperties"] = False
            if free or (extra is None and not declared and node.pointer):
                where = "/additionalProperties" if free else ""
                self._problem(
                    node,
                    where,
                    "takes properties of any name, which a strict provider can't send; declare "
                    "them, or use a list of objects with a name and a value",
                )
        elif extra is not None:
            if isinstance(extra.schema, bool):
                out["additionalProperties"] = extra.schema
            else:
                out["additionalProperties"], _ = self.write(extra, depth + 1)

    def _array(self, node: Node, out: dict[str, Any], restoration: Restoration, depth: int) -> None:
        items = next((e.target for e in node.edges if e.keyword == "items" and e.key is None), None)
        if items is None:
            if "items" not in node.schema and "prefixItems" not in node.schema:
                self._problem(node, "", "is an array without 'items'; say what they are")
            return
        out["items"], restoration.items = self.write(items, depth + 1)

    def _problem(self, node: Node, place: str, message: str) -> None:
        self.result.problems.append(Problem(node.pointer + place, message))


def _says_nothing(keyword: str, schema: dict[str, Any]) -> bool:
    value = schema[keyword]
    if keyword == "if":
        return "then" not in schema and "else" not in schema
    if keyword == "additionalItems":
        return not isinstance(schema.get("items"), list)
    if keyword == "unevaluatedProperties" and value is False:
        return schema.get("additionalProperties") is False
    return value is True or value in ({}, [])


def _named_type(node: Node) -> Any:
    return node.schema.get("type") if isinstance(node.schema, dict) else None


def _all_disjoint(branches: Iterable[Node]) -> bool:
    nodes = list(branches)
    return all(are_disjoint(one, two) for i, one in enumerate(nodes) for two in nodes[i + 1 :])


def _defaults_to_null(node: Node) -> bool:
    schema = node.schema
    return isinstance(schema, dict) and "default" in schema and schema["default"] is None


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Let ``null`` fit as well."""
    named = schema.get("type")
    simple = isinstance(named, str) and named not in ("object", "array", "null")
    if simple and "anyOf" not in schema:
        out = {**schema, "type": [named, "null"]}
        if "enum" in schema:
            out["enum"] = [*schema["enum"], None]
        return out
    if "anyOf" in schema and set(schema) <= {"anyOf", "description", "title"}:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    inner = {k: v for k, v in schema.items() if k not in ("description", "title")}
    outer = {k: v for k, v in schema.items() if k in ("description", "title")}
    return {**outer, "anyOf": [inner, {"type": "null"}]}
