"""Lines of bounded width for a terminal, counted in cells: wide characters take two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

from ..text import escape_text

__all__ = ["columns", "cut", "escaped", "lines_of", "pad", "wrap"]


def escaped(text: str) -> str:
    """Return text as one line that is safe to print."""
    return escape_text(text.replace("\n", " ").replace("\t", " "), keep_newlines=False)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each safe to print, tabs as blanks."""
    return [
        escape_text(line.replace("\t", "    "), keep_newlines=False) for line in text.split("\n")
    ]


def cut(line: str, width: int) -> str:
    """Shorten a line to ``width`` cells, with a mark."""
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def pad(line: str, width: int) -> str:
    """Return a line of exactly ``width`` cells."""
    return set_cell_size(cut(line, width), width)


def wrap(line: str, width: int, *, first: str = "", rest: str | None = None) -> Iterator[str]:
    """Break a line at blanks, and inside of words that are too long.

    Args:
        line: Safe text.
        width: Cells of every line, prefixes included.
        first: Prefix of the first line.
        rest: Prefix of the others; blanks when ``None``.
    """
    rest = " " * cell_len(first) if rest is None else rest
    room = max(8, width - cell_len(first))
    if cell_len(line) <= room:
        yield first + line
        return
    words = line.lstrip(" ")
    indent = " " * min(len(line) - len(words), room // 2)
    first, rest, line, room = first + indent, rest + indent, words, room - len(indent)
    prefix, current, used = first, "", 0
    for word in line.split(" "):
        size = cell_len(word)
        if current and used + 1 + size <= room:
            current, used = f"{current} {word}", used + 1 + size
            continue
        if current or used:
            yield prefix + current
            prefix = rest
        pieces = chop_cells(word, room) if size > room else [word]
        for piece in pieces[:-1]:
            yield prefix + piece
            prefix = rest
        current = pieces[-1] if pieces else ""
        used = cell_len(current)
    yield prefix + current


def columns(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Pad the cells of a table, so that each row fits into ``width``; two blanks between.

    The widest columns are cut first.
    """
    sizes = [max(3, *(cell_len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    room = max(3 * len(sizes), width - 2 * (len(sizes) - 1))
    while sum(sizes) > room:
        widest = max(sizes)
        second = max((s for s in sizes if s < widest), default=3)
        for index, size in enumerate(sizes):
            if size == widest:
                sizes[index] = max(second, widest - (sum(sizes) - room), 3)
    return [[pad(cell, size) for cell, size in zip(row, sizes, strict=True)] for row in rows]
