"""CSV sheets that people fill in with a spreadsheet program.

Such a program takes some texts for formulas. A cell of it holds 32,767 UTF-16 code units; what is
longer it cuts, or refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# A spreadsheet program takes such a cell for a formula; an apostrophe before it says that it is
# text. One more is put before a text that has apostrophes there itself, so it can be undone.
_BEGINS_FORMULA = r"[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]"
_TO_SHIELD = re.compile(f"'*{_BEGINS_FORMULA}")
_SHIELDED = re.compile(f"'+{_BEGINS_FORMULA}")

CELL_LIMIT = 32_767
"""UTF-16 code units that a cell of a spreadsheet program holds."""
CELL_MAY_BE_CUT = 32_000
"""Of a text that is longer the beginning counts when a sheet is read; a note may follow it."""


def shielded(cell: str) -> str:
    """Return a text so that a spreadsheet program takes it for text."""
    return f"'{cell}" if _TO_SHIELD.match(cell) else cell


def plain(cell: str) -> str:
    """Return the text that was shielded."""
    return cell[1:] if _SHIELDED.match(cell) else cell


def fitting(text: str, note: Callable[[int], str]) -> str:
    """Return a text that fits into a cell, shielded or not.

    Args:
        text: what a cell is to show; as it is where it fits.
        note: number of characters shown -> what is said after them in the place of the rest; at
            most 500 characters.
    """
    if _units(text) < CELL_LIMIT:
        return text
    head = _beginning(text, CELL_MAY_BE_CUT + 200)
    return head + note(len(head))


def is_shown_as(cell: str, text: str) -> bool:
    """Return whether a cell shows a text, or the beginning of one that may not fit."""
    shown_lines, whole = _lines_alike(cell), _lines_alike(text)
    if shown_lines == whole:
        return True
    head = _lines_alike(fitting(text, lambda _: ""))
    if head == whole:
        return False
    # the latter: what an older sheet had in one cell, and a program cut
    begins = (_beginning(each, CELL_MAY_BE_CUT) for each in (shown_lines, whole))
    return shown_lines.startswith(head) or len(set(begins)) == 1


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _beginning(text: str, units: int) -> str:
    """Return as many of the first characters as take so many code units at most."""
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore")


def _lines_alike(text: str) -> str:
    """Return text with one kind of line end: spreadsheet programs write their own."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
