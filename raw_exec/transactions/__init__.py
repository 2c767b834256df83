"""What a call changed in files, seen before it happens to anyone, and then made or not made.

``view`` and ``observe`` say what a call changed on its copy-on-write view; ``coverage`` compares
that with what its tool declared, ``diff`` shows it to a person, ``commit`` makes it in the real
tree, and ``recover`` finishes or undoes a commit that was killed.
"""

from __future__ import annotations

from .changes import Change, ChangeSet
from .commit import CommitLimits, CommitReport, commit
from .coverage import not_done, uncovered
from .diff import unified
from .errors import CommitConflict, CommitInterrupted, CommitRefused, show_path
from .journal import default_state_dir
from .recover import RecoveryReport, recover, recover_at_start

__all__ = [
    "Change",
    "ChangeSet",
    "CommitConflict",
    "CommitInterrupted",
    "CommitLimits",
    "CommitRefused",
    "CommitReport",
    "RecoveryReport",
    "commit",
    "default_state_dir",
    "not_done",
    "recover",
    "recover_at_start",
    "show_path",
    "uncovered",
    "unified",
]
