"""Lists of things to do: the rules, pure, and the handler that keeps one in a panel."""

from __future__ import annotations
