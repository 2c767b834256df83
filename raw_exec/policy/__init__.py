"""Policy: rules over tool identities, with conditions on arguments and effects.

Contract source: seed 1, "Predicates"; seed 2, rules; the configuration's ``tools.rules``.
"""

from .glob import Matcher, compile_glob
from .predicate import (
    BoundPredicate,
    Predicate,
    PredicateMatches,
    PredicateSet,
    bind_predicate,
    parse_predicate,
)
from .rules import Effect, Evaluation, Rule, RuleSet, ToolPolicy, Verdict, parse_rules

__all__ = [
    "BoundPredicate",
    "Effect",
    "Evaluation",
    "Matcher",
    "Predicate",
    "PredicateMatches",
    "PredicateSet",
    "Rule",
    "RuleSet",
    "ToolPolicy",
    "Verdict",
    "bind_predicate",
    "compile_glob",
    "parse_predicate",
    "parse_rules",
]
