"""Python types of shapes: pydantic models for arguments, typed dictionaries for results."""

from __future__ import annotations

from typing import Any, Final

from ...schema.patterns import portable_pattern
from .names import Namespace, pascal, python_fields
from .shapes import Scalar, Shape

__all__ = ["InputTypes", "OutputTypes", "literal"]

_PLAIN: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_CHECKED: Final = {
    "string": "StrictStr",
    "integer": "_Integer",
    "number": "_Number",
    "boolean": "StrictBool",
    "null": "None",
}
_NOTHING: Final = ["BeforeValidator(_limited(maxProperties=0))"]
_EXTRA: Final = {"strip": "ignore", "keep": "allow", "forbid": "forbid"}


def literal(value: Any) -> str:
    """Return a scalar, or plain data, as ASCII Python source."""
    return ascii(value)


def _literal_type(values: tuple[Scalar, ...]) -> str:
    if not values:
        return "Any"
    if any(isinstance(value, float) for value in values):
        return "float"
    return f"Literal[{', '.join(literal(value) for value in values)}]"


def _union(types: list[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _child(name: str, part: str) -> str:
    return name + (pascal(part) or "Field")


class InputTypes:
    """Emit models bottom-up: a class stands before what uses it.

    Attributes:
        blocks: Source of classes and constants, in order.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.blocks: list[str] = []
        self._namespace = namespace

    def root(self, shape: Shape, name: str, doc: str) -> None:
        """Emit the model of an input schema under a name that is already claimed."""
        self._model(shape, name, doc)

    def annotation(self, shape: Shape, name: str) -> str:
        """Return the annotation that checks everything that a shape says.

        Args:
            name: What to call classes that are needed for it.
        """
        if shape.kind == "object" and shape.fields and shape.values is None:
            cls = self._namespace.invent(name)
            self._model(shape, cls, shape.description)
            return cls
        # Invariant: of several validators the last one runs first, so checks see raw data.
        base, rest = self._base(shape, name)
        checks = [f"BeforeValidator({one})" for one in self._checks(shape, name)]
        return f"Annotated[{', '.join([base, *rest, *checks])}]" if rest or checks else base

    def _base(self, shape: Shape, name: str) -> tuple[str, list[str]]:
        """Return a type, and the validator that turns a value into one of it."""
        if shape.values is not None:
            listed = ", ".join(literal(value) for value in shape.values)
            return _literal_type(shape.values), [f"BeforeValidator(_values({listed}))"]
        if shape.kind == "array":
            items = "Any" if shape.items is None else self.annotation(shape.items, name + "Item")
            return f"list[{items}]", []
        if shape.kind == "object":
            return "dict[str, Any]", _NOTHING if shape.extra == "forbid" else []
        if shape.kind != "any":
            return _CHECKED[shape.kind], []
        for helper, branches in (("_any_of", shape.any_of), ("_one_of", shape.one_of)):
            if branches:
                types = self._branches(branches, name)
                return _union(types), [f"WrapValidator({helper}({', '.join(types)}))"]
        return "Any", []

    def _branches(self, branches: tuple[Shape, ...], name: str) -> list[str]:
        return [
            self.annotation(branch, f"{name}Option{index}")
            for index, branch in enumerate(branches, 1)
        ]

    def _checks(self, shape: Shape, name: str) -> list[str]:
        """Return the checks of a value beside its type; each leaves it as it is."""
        found: list[str] = []
        if shape.limits:
            limits = ", ".join(f"{key}={_limit(key, value)}" for key, value in shape.limits)
            found.append(f"_limited({limits})")
        for condition in shape.conditions:
            kind = literal(condition.kind)
            found.append(f"_also({self.annotation(condition, name + 'Case')}, {kind})")
        groups = [("_any_of", shape.any_of), ("_one_of", shape.one_of)]
        if shape.kind == "any" and shape.values is None:
            # The first alternatives that there are became the type itself.
            groups = groups[1:] if shape.any_of else []
        for helper, branches in groups:
            if branches:
                inner = f"{helper}({', '.join(self._branches(branches, name))})"
                found.append(f"_also(Annotated[Any, WrapValidator({inner})])")
        return found

    def _model(self, shape: Shape, cls: str, doc: str) -> None:
        lines = [f"class {cls}(BaseModel):"]
        if doc:
            lines += [f"    {literal(doc)}", ""]
        extra = shape.extra
        lines += [
            f'    model_config = ConfigDict(extra="{_EXTRA[extra]}", serialize_by_alias=True)'
        ]
        branch_fields = () if extra == "forbid" else shape.branch_fields
        attributes = python_fields(
            [*(one.name for one in shape.fields), *branch_fields], self._namespace
        )
        for one in shape.fields:
            attribute = attributes[one.name]
            kind = self.annotation(one.shape, _child(cls, one.name))
            alias = f"alias={literal(one.name)}" if attribute != one.name else ""
            if one.required:
                value = f" = Field({alias})" if alias else ""
            else:
                if not one.shape.takes_null:
                    kind = f"Annotated[{kind} | None, BeforeValidator(_present)]"
                elif not _has_none(kind):
                    kind = f"{kind} | None"
                value = f" = Field(default=None, {alias})" if alias else " = None"
            lines.append(f"    {attribute}: {kind}{value}")
            if one.shape.description:
                lines.append(f"    {literal(one.shape.description)}")
        for name in branch_fields:
            attribute = attributes[name]
            alias = f", alias={literal(name)}" if attribute != name else ""
            value = f"Field(default=None{alias})" if alias else "None"
            lines.append(f"    {attribute}: Any = {value}")
        checks = self._checks(shape, cls)
        if shape.values is not None:
            checks.append(f"_values({', '.join(literal(value) for value in shape.values)})")
        if checks:
            constant = self._namespace.invent(f"_{cls}Checks")
            self.blocks.append(f"{constant} = ({', '.join(checks)},)")
            lines += [
                "",
                '    @model_validator(mode="before")',
                "    @classmethod",
                "    def _check(cls, value: Any) -> Any:",
                f"        return _checked(value, *{constant})",
            ]
        self.blocks.append("\n".join(lines))


def _limit(keyword: str, value: Any) -> str:
    return literal(portable_pattern(value) if keyword == "pattern" else value)


def _has_none(annotation: str) -> bool:
    return annotation in ("None", "Any") or annotation.endswith(" | None")


def _is_dictionary(shape: Shape) -> bool:
    """Return whether a typed dictionary can say it: type checkers take no empty key."""
    declared = shape.kind == "object" and shape.values is None and bool(shape.fields)
    return declared and not any(one.name == "" for one in shape.fields)


class OutputTypes:
    """Emit types of results. Nothing checks them at run time.

    Attributes:
        blocks: Source of typed dictionaries, in order.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.blocks: list[str] = []
        self._namespace = namespace

    def root(self, shape: Shape | None, name: str) -> None:
        """Emit the type of an output schema under a name that is already claimed."""
        if shape is not None and _is_dictionary(shape):
            self._dictionary(shape, name)
            return
        kind = "Any" if shape is None else self.annotation(shape, name)
        self.blocks.append(f"{name}: TypeAlias = {kind}")

    def annotation(self, shape: Shape, name: str) -> str:
        """Return the static type of a shape.

        Args:
            name: What to call typed dictionaries that are needed for it.
        """
        if shape.values is not None:
            return _literal_type(shape.values)
        if _is_dictionary(shape):
            cls = self._namespace.invent(name)
            self._dictionary(shape, cls)
            return cls
        if shape.kind == "object":
            return "dict[str, Any]"
        if shape.kind == "array":
            items = "Any" if shape.items is None else self.annotation(shape.items, name + "Item")
            return f"list[{items}]"
        if shape.kind != "any":
            return _PLAIN[shape.kind]
        branches = shape.any_of or shape.one_of
        if not branches:
            return "Any"
        types = [
            self.annotation(branch, f"{name}Option{index}")
            for index, branch in enumerate(branches, 1)
        ]
        return "Any" if "Any" in types else _union(types)

    def _dictionary(self, shape: Shape, cls: str) -> None:
        entries = []
        for one in shape.fields:
            kind = self.annotation(one.shape, _child(cls, one.name))
            if not one.required:
                kind = f"NotRequired[{kind}]"
            entries.append(f"    {literal(one.name)}: {kind},")
        if shape.extra != "forbid":
            entries += [
                f"    {literal(one)}: NotRequired[Any]," for one in shape.branch_fields if one
            ]
        self.blocks.append("\n".join([f'{cls} = TypedDict("{cls}", {{', *entries, "})"]))
