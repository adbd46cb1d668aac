"""Texts in the cells of a spreadsheet program, which takes some of them for formulas."""

from __future__ import annotations

import re

# A spreadsheet program takes such a cell for a formula; an apostrophe before it says that it is
# text. One more is put before a text that has apostrophes there itself, so it can be undone.
_BEGINS_FORMULA = r"[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]"
_TO_SHIELD = re.compile(f"'*{_BEGINS_FORMULA}")
_SHIELDED = re.compile(f"'+{_BEGINS_FORMULA}")


def shielded(cell: str) -> str:
    """Return a text so that a spreadsheet program takes it for text."""
    return f"'{cell}" if _TO_SHIELD.match(cell) else cell


def plain(cell: str) -> str:
    """Return the text that was shielded."""
    return cell[1:] if _SHIELDED.match(cell) else cell
