"""Text from files, servers and people as it may be shown: what is data is never obeyed.

A terminal obeys control characters (ESC begins colours, titles and links), every screen obeys the
marks of direction (U+202E shows ``gpj.exe`` as ``exe.jpg``), and Markdown its own signs.

A spreadsheet program takes some texts for formulas. A cell of it holds 32,767 UTF-16 code units;
what is longer it cuts, or refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Control characters, marks of direction, what takes no place on a screen, ends of lines, halves of
# characters. The joiners U+200C and U+200D are part of words.
_OBEYED = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_IN_LINE = re.compile(f"[{_OBEYED}]")
_IN_TEXT = re.compile(f"(?![\t\n])[{_OBEYED}]")

# Signs that begin something in Markdown, wherever they stand; a link's address; an entity.
_MARKDOWN = re.compile(
    r"[\\`*<|~]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|&(?=#?\w+;)|^[#>+-](?=\s)|(?<=^\d)[.)](?=\s)"
)


def one_line(text: str) -> str:
    r"""Return a text on one line, with what a screen would obey written out: ``\x1b``, ``\n``."""
    return _IN_LINE.sub(lambda match: ascii(match[0])[1:-1], text)


def printable(text: str) -> str:
    """Return a text as :func:`one_line` does, with its line ends and tabs."""
    return _IN_TEXT.sub(lambda match: ascii(match[0])[1:-1], text)


def without_obeyed(text: str) -> str:
    """Return a text with a blank in place of each character that a screen would obey."""
    return _IN_LINE.sub(" ", text)


def json_safe(text: str) -> str:
    r"""Return JSON that says the same, with what a screen would obey as ``\u202e``."""
    return _IN_TEXT.sub(_json_escape, text)


def shortened(text: str, length: int = 200) -> str:
    """Return a text without its middle when it is long."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]}...{text[-half:]}"


def markdown(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    return _MARKDOWN.sub(lambda match: f"\\{match[0]}", one_line(" ".join(text.splitlines())))


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


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
