"""A document from its text: parsed, measured and validated, and kept when it was all right.

Programs send the same few documents again and again with other variables, and to parse and
validate one costs as much as to answer it. What is kept depends on nothing but the text, the
schema and the limits, so it is the same for every caller.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from graphql import ASTValidationRule, DocumentNode, GraphQLError, GraphQLSchema, validate

from .limits import ServerLimits, parse_document

__all__ = ["InvalidDocument", "read_document"]

Rules = tuple[type[ASTValidationRule], ...]

_MAX_VALIDATION_ERRORS: Final = 20

_KEPT: Final = 64
_KEPT_CHARS: Final = 2048
"""Of one text. A document takes up to 300 bytes of memory per character, so 40 MB in all."""


class InvalidDocument(Exception):
    """A document can be read, but does not fit the schema."""

    def __init__(self, errors: list[GraphQLError]) -> None:
        super().__init__(len(errors))
        self.errors = errors


def read_document(
    schema: GraphQLSchema, text: str, limits: ServerLimits, rules: Rules
) -> DocumentNode:
    """Return the document of a text that may be run.

    Args:
        rules: What it is validated by.

    Raises:
        GraphQLError: It is no GraphQL, or too big in some way.
        InvalidDocument: It does not fit the schema.
    """
    if len(text) > _KEPT_CHARS:
        return _check(schema, text, limits, rules)
    return _check_once(schema, text, limits, rules)


def _check(schema: GraphQLSchema, text: str, limits: ServerLimits, rules: Rules) -> DocumentNode:
    document = parse_document(text, limits)
    errors = validate(schema, document, rules, max_errors=_MAX_VALIDATION_ERRORS)
    if errors:
        raise InvalidDocument(errors)
    return document


# What raises is not kept.
_check_once = lru_cache(maxsize=_KEPT)(_check)
