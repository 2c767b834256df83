"""Stay ahead of what has to be killed.

A fork bomb that nothing counts fills the run queue in a fraction of a second, and whoever
should end it then waits its turn among thousands. Real-time priority, which the kernel
gives to a privileged process only, puts the launcher and its sweepers before all of them;
they sleep nearly always. An ordinary user can't have it and doesn't need it: for him the
kernel counts processes (``RLIMIT_NPROC``), which it does not for uid 0, and sessions are
bounded where each is scheduled apart (``sessions.py``).
"""

from __future__ import annotations

import os

__all__ = ["prefer_this_process"]


def prefer_this_process() -> bool:
    """Run before ordinary processes from here on; children do not inherit it.

    Returns:
        Whether the kernel agreed.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        return False
    return True
