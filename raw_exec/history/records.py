"""What the history holds, as values. Times are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = [
    "LIVE_JOB_STATES",
    "CallRecord",
    "InteractionChange",
    "InteractionRecord",
    "JobRecord",
    "PanelRevision",
    "Receipt",
    "SessionRecord",
    "StoredSubmission",
    "Swept",
]

LIVE_JOB_STATES: Final = ("starting", "running", "stopping")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session.

    Args:
        state: ``open``, ``ended`` or ``interrupted`` (its host died).
    """

    session_id: str
    state: str
    started_at: int
    agent: str | None = None
    principal: str | None = None
    cwd: str | None = None
    ended_at: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PanelRevision:
    """One committed revision of a panel.

    Args:
        panel: Full panel ID, of a chat placement with its call.
        document: The document; ``None`` when the panel was closed without one.
        state: ``open`` or ``closed``.
    """

    panel: str
    revision: int
    document: Mapping[str, Any] | None
    at: int
    state: str = "open"
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """One thing that happened beside a call: a hook run, a rejected panel update."""

    kind: str
    body: Mapping[str, Any]
    at: int
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One background process, under the states of ``raw_exec.jobs``."""

    job_id: str
    state: str
    command: str
    started_at: int
    label: str | None = None
    ended_at: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call, and its result when it has ended.

    Args:
        number: Rises with every call of the file.
        state: ``running``, ``done`` or ``interrupted`` (its host died first).
        content: Result blocks without panels; over a size limit a note instead.
    """

    number: int
    session_id: str
    tool_call_id: str
    identity: str
    name: str
    source: str
    arguments: Any
    state: str
    started_at: int
    ended_at: int | None = None
    is_error: bool | None = None
    code: str | None = None
    stage: str | None = None
    content: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class InteractionRecord:
    """One question, as stored.

    Args:
        state: One of ``raw_exec.interactions.InteractionState``.
        revision: 1 when asked; rises by one when it is settled.
        host: The host that waits for the answer.
        budget_bytes: Room of the call's output for the answer.
        reason: Why it was cancelled or interrupted, for people.
    """

    request_id: str
    session_id: str
    host: int
    tool_call_id: str
    owner: str
    panel: str
    document: Mapping[str, Any]
    budget_bytes: int
    state: str
    revision: int
    created_at: int
    expires_at: int
    settled_at: int | None = None
    answers: Mapping[str, Any] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """An accepted submission: its key, what it said (a digest), and what was acknowledged."""

    key: str
    digest: str
    acknowledgement: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InteractionChange:
    """What to store of one decision, all in one transaction.

    Args:
        outcome: Passed back to the one who asked for the change.
        record: The question's new row; ``None`` leaves it.
        submission: An accepted submission to remember.
    """

    outcome: Any
    record: InteractionRecord | None = None
    submission: StoredSubmission | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What hosts that died left behind.

    Args:
        interrupted: Request IDs of questions that were pending.
        lost: Session and job ID of background processes that were live.
        calls: Session and call ID of calls that had no result.
        sessions: Sessions that were open.
    """

    interrupted: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    sessions: tuple[str, ...] = ()
