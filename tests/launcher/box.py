"""A launcher that can do one tier, with a workspace and a secret to test it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.launcher.client import SYSTEM, Client, Ended

__all__ = ["SIMULATE", "Box"]

SIMULATE = {
    "baseline": ("no-userns", "no-cgroup"),
    "namespaces": ("no-cgroup",),
    "cgroup": (),
}
"""What a launcher acts as if it had not, so that the tier is its best one."""


class Box:
    """A launcher that can do one tier, with a folder it may write and a secret it may not read.

    Args:
        tier: The tier every spawn demands.
        client: The launcher.
        base: A folder of this test, outside every grant but ``work``.
    """

    def __init__(self, tier: str, client: Client, base: Path, uid: int) -> None:
        self.tier = tier
        self.client = client
        self.base = base
        self.uid = uid
        self.work = base / "work"
        self.secret = base / "hidden" / "secret.txt"

    @property
    def private(self) -> bool:
        """Whether workers get namespaces."""
        return self.tier != "baseline"

    def options(self, changes: dict[str, Any]) -> dict[str, Any]:
        memory = {"memory_bytes": 256 << 20} if self.tier == "cgroup" else {}
        return {
            "tier": self.tier,
            "cwd": str(self.work),
            "write": [str(self.work)],
            "read": [*SYSTEM],
            **memory,
            **changes,
        }

    def run(self, argv: list[str], **changes: Any) -> Ended:
        return self.client.run(argv, **self.options(changes))

    def python(self, code: str, **changes: Any) -> Ended:
        """Run code with ``SECRET`` and ``WORK`` defined and ``attempt`` at hand."""
        head = (
            "import os, sys, errno, json, ctypes\n"
            f"SECRET={str(self.secret)!r}\nWORK={str(self.work)!r}\n"
            "L=ctypes.CDLL(None, use_errno=True)\n"
            "def attempt(f, *a, **k):\n"
            "    try:\n"
            "        f(*a, **k)\n"
            "    except OSError as e:\n"
            "        return errno.errorcode.get(e.errno, str(e.errno))\n"
            "    return 'ok'\n"
            "def raw(n, *a):\n"
            "    r = L.syscall(n, *a)\n"
            "    return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]\n"
        )
        return self.client.python(head + code, **self.options(changes))

    def value(self, code: str, **changes: Any) -> Any:
        """Run code that prints one JSON value; return it."""
        ended = self.python(code, **changes)
        assert ended.exited["code"] == 0, ended
        return json.loads(ended.out)

    def spawn(self, code: str, **changes: Any) -> dict[str, Any]:
        return self.client.spawn(
            ["/usr/bin/python3", "-I", "-S", "-c", code], **self.options(changes)
        )
