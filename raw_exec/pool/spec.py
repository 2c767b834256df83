"""What a call needs of a worker, and so which workers it may use."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..manifest import Snapshot
from ..sandbox import SandboxPlan

__all__ = ["WorkerSpec"]


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a call needs of a worker.

    Args:
        label: Policy identity of the tool, for messages.
        language: ``"esm"`` or ``"python"``.
        kind: ``"handler"``, or ``"descriptor"`` for a worker that only describes.
        entry: Entry file, relative to the snapshot.
        snapshot: The frozen tool folder.
        plan: What its sandbox grants.
        principal: On whose behalf; workers are never shared between principals.
        cwd: The process's own working directory; the tool's folder when ``None``.
    """

    label: str
    language: str
    kind: str
    entry: str
    snapshot: Snapshot
    plan: SandboxPlan
    principal: str
    cwd: str | None = None
    key: tuple[str, ...] = field(init=False)
    """The trust domain."""

    def __post_init__(self) -> None:
        key = (
            self.label,
            self.snapshot.digest,
            self.plan.key,
            self.principal,
            self.kind,
            self.cwd or "",
        )
        object.__setattr__(self, "key", key)
