"""All cases, and what of the corpus is left out and why: nothing is dropped silently."""

from __future__ import annotations

from collections.abc import Mapping

from tests.attacks import (
    cases_filesystem,
    cases_kernel,
    cases_manifest,
    cases_memory,
    cases_network,
    cases_package,
    cases_persistence,
    cases_processes,
    cases_protocol,
    cases_results,
    cases_timing,
)
from tests.attacks.model import Case

__all__ = ["CASES", "EXCLUDED", "by_id"]

CASES: tuple[Case, ...] = (
    *cases_filesystem.CASES,
    *cases_network.CASES,
    *cases_processes.CASES,
    *cases_memory.CASES,
    *cases_protocol.CASES,
    *cases_results.CASES,
    *cases_persistence.CASES,
    *cases_timing.CASES,
    *cases_kernel.CASES,
    *cases_manifest.CASES,
    *cases_package.CASES,
)
EXCLUDED: Mapping[str, str] = {
    "N14": "there is no proxy: a profile can grant no network, a private loopback, or all of it",
    "N15": "there is no proxy",
    "V26": "the contract has no output schema",
    "X32": "archives are not accepted; that a file is refused as a folder is tried",
    **dict.fromkeys(
        ("R01", "R02", "R03", "R04", "R06", "R07", "R08", "R09", "R10", "R13", "R14"),
        "a provider is no tool: see tests/variables/test_oneshot.py and test_providers.py",
    ),
}
"""Corpus ids that have no case, with the reason."""


def by_id() -> dict[str, Case]:
    """Return the cases by id; ids are unique."""
    found = {case.id: case for case in CASES}
    if len(found) != len(CASES):
        raise ValueError("two cases have one id")
    return found
