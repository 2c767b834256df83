"""What an attack is: data, and what must be seen when it runs.

A handler fills a report, one entry per attempt. The first character of an entry's name
says how to read it:

* ``+name`` must work: a sandbox that blocks everything must not pass;
* ``=name`` is a value, for the case's own ``check``;
* ``?name`` is for information;
* any other name is an attempt that must be denied: its value is one of ``REFUSALS``, never
  ``ok…`` and never ``SLOW`` (what it would have reached did not refuse, it kept silent).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raw_exec import ToolResult

__all__ = ["EFFECTS", "ISOLATIONS", "REFUSALS", "TIERS", "Case", "Check", "Gap", "Ran", "denied"]

TIERS: Mapping[str, tuple[str, ...]] = {
    "baseline": ("no-userns", "no-cgroup"),
    "namespaces": ("no-cgroup",),
    "cgroup": (),
}
"""Tier to what the launcher has to treat as missing."""

ISOLATIONS = ("pooled", "fresh")
EFFECTS = ("declared", "observed", "enforced")


@dataclass(slots=True)
class Ran:
    """What one run of a case gave.

    Args:
        tier: The tier enforced.
        isolation: ``"pooled"`` or ``"fresh"``.
        code: The last outcome's code; ``"ok"`` when the tool returned a result.
        report: The last outcome's JSON value, or ``{}``.
        results: All outcomes in order, for sequences.
        facts: What a driver outside measured.
        late: What a driver found to have come after its time.
    """

    tier: str
    isolation: str
    code: str = "ok"
    report: Any = field(default_factory=dict)
    results: list[ToolResult] = field(default_factory=list)
    text: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    @property
    def last(self) -> ToolResult:
        """The outcome of the last call."""
        return self.results[-1]

    @property
    def reports(self) -> list[Any]:
        """The JSON value of every outcome, ``None`` where there is none."""
        return [_value(result) for result in self.results]


def _value(result: ToolResult) -> Any:
    for block in result.content:
        if block["type"] == "json":
            return block["value"]
    return None


Check = Callable[[Ran], "str | None"]
"""Says what is wrong, or ``None``."""

Drive = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Gap:
    """Something a tier is known not to contain. The run must show it, or the table is stale.

    Args:
        name: Key into ``gaps.GAPS``.
        tiers: Where it is open.
        entries: Report entries that are expected to work there.
        sometimes: It is a race, so a run need not show it.
    """

    name: str
    tiers: tuple[str, ...]
    entries: tuple[str, ...]
    sometimes: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One attack.

    Args:
        id: Corpus id, a dot, and the variation: ``"F03.js-link"``.
        title: What it tries.
        language: ``js`` and ``py`` are handler bodies, ``wire`` a fake worker's script,
            ``call`` an async function driven from outside (``drive``).
        body: Source.
        codes: Outcome codes that are right.
        codes_on: Other codes for a tier.
        check: A further condition.
        before: Module level source.
        calls: Arguments of the calls of a sequence; the fixture facts are added as ``w``.
        profile: Sandbox profile: ``plain``, ``procs``, ``readonly``, ``proc``, ``net``,
            ``netprocs``.
        gaps: Known gaps.
        files: Further files of the package.
        again: A benign call to the same plugin works afterwards.
        timeout: Of the handler, seconds.
        tiers: Where it can be tried at all.
        once: It starts no worker, so one tier and isolation are enough.
        rss_mb: Growth of the supervisor that one run may leave, MB.
        drive: For ``call``.
    """

    id: str
    title: str
    language: str
    body: str = ""
    codes: tuple[str, ...] = ("ok",)
    codes_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    check: Check | None = None
    before: str = ""
    calls: tuple[Mapping[str, Any], ...] = ({},)
    profile: str = "plain"
    gaps: tuple[Gap, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    again: bool = True
    timeout: float = 1.5
    tiers: tuple[str, ...] = tuple(TIERS)
    once: bool = False
    rss_mb: float = 5.0
    drive: Drive | None = None

    @property
    def corpus_id(self) -> str:
        """The id in the corpus."""
        return self.id.partition(".")[0]

    @property
    def tool(self) -> str:
        """The id of the tool that holds the handler."""
        return self.id.lower().replace(".", "-")

    def runs_on(self, tier: str, *, first: bool) -> bool:
        """Whether it is to run on a tier; ``first`` says that it is the only or first column."""
        return tier in self.tiers and (first or not self.once)

    def allowed_codes(self, tier: str) -> tuple[str, ...]:
        """Outcome codes that are right on a tier."""
        return self.codes_on.get(tier, self.codes)


REFUSALS = frozenset({
    "EPERM", "EACCES", "ENOENT", "ENOSYS", "EROFS", "EXDEV", "ESRCH",
    "EAFNOSUPPORT", "EOPNOTSUPP", "ENOTSUP", "EPROTONOSUPPORT",
    "EMFILE", "ENOMEM", "EFBIG", "ENOSPC",
    "ENETUNREACH", "ECONNREFUSED", "EAI_AGAIN",
    "DENIED",
})  # fmt: skip
"""What the kernel, or the sandbox, says when it refuses; ``DENIED`` is said by ``deny()``.

Any other code (``EINVAL``, ``EBADF``, ``EISDIR``, ``TypeError``, …) says that the attempt was
wrong and would have failed without a sandbox as well.
"""


def denied(value: Any) -> bool:
    """Whether one attempt's entry says that it was refused."""
    return isinstance(value, str) and value in REFUSALS
