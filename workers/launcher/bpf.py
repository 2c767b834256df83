"""Assemble classic BPF programs for seccomp.

A program is a list of blocks. Each block tests the call number once and either
falls through to the next block or returns, so every jump stays inside its block
and no offset can overflow the eight bits BPF gives it.
"""

from __future__ import annotations

import struct

__all__ = ["Program", "allow", "ask", "error"]

_LD_ABS, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_RET_ALLOW, _RET_ERRNO, _RET_KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_RET_USER_NOTIF = 0x7FC00000
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16


def error(code: int) -> int:
    """Return the verdict "the call fails with errno ``code``"."""
    return _RET_ERRNO | (code & 0xFFFF)


allow = _RET_ALLOW
ask = _RET_USER_NOTIF
"""The verdict "whoever holds the listener decides"."""


def _instruction(code: int, k: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, k & 0xFFFFFFFF)


class Program:
    """A seccomp program under construction: first matching block decides.

    Args:
        audit_arch: ``AUDIT_ARCH_*``; a call made through any other ABI kills.
    """

    def __init__(self, audit_arch: int) -> None:
        self._code = [
            _instruction(_LD_ABS, _OFFSET_ARCH),
            _instruction(_JEQ, audit_arch, 1, 0),
            _instruction(_RET, _RET_KILL_PROCESS),
            _instruction(_LD_ABS, _OFFSET_NUMBER),
        ]

    def at_least(self, number: int, verdict: int) -> None:
        """Decide every call whose number is ``number`` or above."""
        self._code += [_instruction(_JGE, number, 0, 1), _instruction(_RET, verdict)]

    def call(self, number: int, verdict: int) -> None:
        """Decide every use of one call."""
        self._code += [_instruction(_JEQ, number, 0, 1), _instruction(_RET, verdict)]

    def _block(self, number: int, body: list[bytes]) -> None:
        self._code += [_instruction(_JEQ, number, 0, len(body)), *body]

    def argument_in(
        self, number: int, index: int, values: tuple[int, ...], inside: int, outside: int
    ) -> None:
        """Decide one call by whether an argument's low 32 bits are among ``values``."""
        body = [_instruction(_LD_ABS, _OFFSET_ARGUMENTS + 8 * index)]
        for value in values:
            body += [_instruction(_JEQ, value, 0, 1), _instruction(_RET, inside)]
        self._block(number, [*body, _instruction(_RET, outside)])

    def all_have(self, number: int, tests: tuple[tuple[int, int], ...], yes: int, no: int) -> None:
        """Decide one call by whether each ``(index, bits)`` argument has any of its bits."""
        body: list[bytes] = []
        for index, bits in tests:
            body += [
                _instruction(_LD_ABS, _OFFSET_ARGUMENTS + 8 * index),
                _instruction(_JSET, bits, 1, 0),
                _instruction(_RET, no),
            ]
        self._block(number, [*body, _instruction(_RET, yes)])

    def masked_in(
        self,
        number: int,
        index: int,
        mask: int,
        values: tuple[int, ...],
        inside: int,
        outside: int,
    ) -> None:
        """Decide one call by whether ``argument & mask`` is among ``values``."""
        body = [
            _instruction(_LD_ABS, _OFFSET_ARGUMENTS + 8 * index),
            _instruction(_AND, mask),
        ]
        for value in values:
            body += [_instruction(_JEQ, value, 0, 1), _instruction(_RET, inside)]
        self._block(number, [*body, _instruction(_RET, outside)])

    def all_in(
        self, number: int, tests: tuple[tuple[int, int, tuple[int, ...]], ...], yes: int, no: int
    ) -> None:
        """Decide one call: ``yes`` when every ``(index, mask, values)`` test holds."""
        body: list[bytes] = []
        for index, mask, values in tests:
            body += [
                _instruction(_LD_ABS, _OFFSET_ARGUMENTS + 8 * index),
                _instruction(_AND, mask),
            ]
            for position, value in enumerate(values):
                left = len(values) - position - 1
                # A match jumps over the remaining comparisons and the refusal.
                body.append(_instruction(_JEQ, value, left + 1, 0))
            body.append(_instruction(_RET, no))
        self._block(number, [*body, _instruction(_RET, yes)])

    def either(
        self,
        number: int,
        ways: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...],
        yes: int,
        no: int,
    ) -> None:
        """Decide one call: ``yes`` when all ``(index, values)`` tests of one way hold."""
        body: list[bytes] = []
        for way in ways:
            # Written back to front: each test either goes on or leaves this way.
            tail = [_instruction(_RET, yes)]
            for index, values in reversed(way):
                head = [_instruction(_LD_ABS, _OFFSET_ARGUMENTS + 8 * index)]
                for position, value in enumerate(values):
                    last = position == len(values) - 1
                    miss = len(tail) if last else 0
                    head.append(_instruction(_JEQ, value, len(values) - position - 1, miss))
                tail = head + tail
            body += tail
        self._block(number, [*body, _instruction(_RET, no)])

    def finish(self) -> bytes:
        """Return the program; a call that no block decided is allowed."""
        return b"".join([*self._code, _instruction(_RET, _RET_ALLOW)])
