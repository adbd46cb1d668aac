"""Text from files, servers and people as it may be shown: what is data is never obeyed.

A terminal obeys control characters (ESC begins colours, titles and links), every screen obeys the
marks of direction (U+202E shows ``gpj.exe`` as ``exe.jpg``), and Markdown its own signs.
"""

from __future__ import annotations

import re

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
    return _IN_LINE.sub(lambda found: ascii(found[0])[1:-1], text)


def printable(text: str) -> str:
    """Return a text as :func:`one_line` does, with its line ends and tabs."""
    return _IN_TEXT.sub(lambda found: ascii(found[0])[1:-1], text)


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
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", one_line(" ".join(text.splitlines())))


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
