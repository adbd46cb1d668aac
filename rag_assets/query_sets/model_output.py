"""What a language model meant: texts out of lists, numbers, bullets, JSON and chatter."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from rag_assets.llm.client import LENGTH, REFUSAL, Answer, Failed


class Unusable(NamedTuple):
    """Why an answer gives nothing."""

    reason: str


class Rejected(NamedTuple):
    """Why what a model wrote is not taken; the query is searched as it was asked, without fail."""

    reason: str


Parsed = list[str] | Unusable

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"```[\w-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BULLET = re.compile(
    r"^\s*(?:[-*+\u2022\u2013\u2014]\s+"
    r"|\(?(?:\d{1,2}[.):\u3001\uff0e\uff09]|[a-hA-H]\))\s*(?!\d)"
    r"|(?:Q|Question|Query|Sub-?question|Variant)\s*\d{0,2}\s*[:.)]\s+)",
)
_FIRST = re.compile(r"\s*(?:[-*+\u2022]|\(?1[.):]|Q|Question|Query)")
_LABEL = re.compile(
    r"^(?:here (?:is|are) [^:\n]{1,60}:\s*"
    r"|(?:rewritten |rephrased |step-?back |general |alternative )?"
    r"(?:question|query|passage|paragraph|answer|rewrite)\s*:\s*)",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u300c", "\u300d"), ("`", "`"))
_BOLD = re.compile(r"\*\*(.+?)\*\*")
# Narrow on purpose: "I cannot open the file" is a fine paraphrase of a query.
_REFUSAL = re.compile(
    r"(?:(?:i['\u2019]m|i am) (?:really |very )?sorry\b|sorry, (?:but )?i\b|as an ai\b"
    r"|i (?:can(?:not|['\u2019]t)|am unable to|['\u2019]m unable to|won['\u2019]t) "
    r"(?:help|assist|comply|fulfil|provide|answer|generate|create|write|rewrite|do that)"
    r"|\u62b1\u6b49|\u5f88\u62b1\u6b49|\u5bf9\u4e0d\u8d77\uff0c\u6211"
    r"|\u6211(?:\u65e0\u6cd5|\u4e0d\u80fd)(?:\u56de\u7b54|\u63d0\u4f9b|\u534f\u52a9))",
    re.IGNORECASE,
)
_HALF = Unusable("the answer was cut at max_tokens")


def parsed_list(answer: Answer, original: str, at_most: int) -> Parsed:
    """Return the texts of a list: JSON, numbered, with bullets, or one a line.

    A last text that was cut off is left out. A line that ends in a colon before others is an
    introduction.
    """
    text = usable_text(answer, original)
    if isinstance(text, Unusable):
        return text
    cut = is_cut(answer)
    fenced = _FENCE.search(text)
    body = fenced[1] if fenced else text
    items = _json_texts(body, cut)
    if items is None:
        items = _lines(body)
        items = items[:-1] if cut else items
    if items:
        return items[:at_most]
    empty = "is an empty list" if re.search(r"\[\s*\]", body) else "holds no text"
    return _HALF if cut else Unusable(f"the answer {empty}")


def parsed_line(answer: Answer, original: str) -> Parsed:
    """Return the one text of an answer, without label, quotes and introduction."""
    if is_cut(answer):
        return _HALF
    items = parsed_list(answer, original, at_most=1)
    return (
        items if isinstance(items, Unusable) else [_unquoted(_LABEL.sub("", items[0])) or items[0]]
    )


def parsed_passage(answer: Answer, original: str) -> Parsed:
    """Return a whole answer as one passage; one that was cut off is used as far as it goes."""
    text = usable_text(answer, original)
    if isinstance(text, Unusable):
        return text
    fenced = _FENCE.fullmatch(text)
    passage = " ".join(_LABEL.sub("", (fenced[1] if fenced else text).strip()).split())
    return [_unquoted(passage)] if passage else Unusable("the answer holds no text")


def usable_text(answer: Answer, original: str = "") -> str | Unusable:
    """Return what the model wrote, without its thinking; Unusable for failures and refusals."""
    if isinstance(answer, Failed):
        return Unusable(answer.reason)
    text = without_thinking(answer.text)
    if answer.finish_reason == REFUSAL:
        detail = f": {_first_line(text)}" if text else ""
        return Unusable(f"the model refused{detail}")
    if _REFUSAL.match(text) and not _REFUSAL.match(original.strip()):
        return Unusable(f"the model refused: {_first_line(text)}")
    if not text:
        return _HALF if is_cut(answer) else Unusable("the answer is empty")
    return text


def without_thinking(text: str) -> str:
    """Return what a model wrote without the part in which it thinks, finished or not."""
    return _THINKING.sub("", text).strip()


def is_cut(answer: Answer) -> bool:
    """Return whether an answer ends at ``max_tokens``."""
    return not isinstance(answer, Failed) and answer.finish_reason == LENGTH


def _json_texts(body: str, cut: bool) -> list[str] | None:
    """Return the strings of a JSON list in a text; None when there is none."""
    start = body.find("[")
    if start < 0 or not body[start + 1 :].lstrip().startswith(('"', "]")):
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(body[start:])
        items = value if all(isinstance(item, str) for item in value) else None
    except ValueError:
        # A half list, or a comma too many: the strings that are whole.
        items = [_decoded(match) for match in _JSON_STRING.findall(body[start:])]
    return None if items is None else [text for item in items if (text := " ".join(item.split()))]


def _decoded(text: str) -> str:
    try:
        value: str = json.loads(text, strict=False)
    except ValueError:
        return text[1:-1]
    return value


def _lines(body: str) -> list[str]:
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    if len(lines) == 1 and not _FIRST.match(lines[0]):
        return [_unquoted(_BOLD.sub(r"\1", lines[0]))]  # "12. December" is no list
    listed = [bool(_BULLET.match(line)) for line in lines]
    if any(listed) and not all(listed):
        # Introduction and farewell stand around the list.
        lines = [line for line, is_item in zip(lines, listed, strict=True) if is_item]
    elif len(lines) > 1 and lines[0].endswith((":", "\uff1a")):
        lines = lines[1:]
    plain = [_BOLD.sub(r"\1", _BULLET.sub("", line)).strip() for line in lines]
    texts = (_unquoted(text.rstrip(",") if text.endswith('",') else text) for text in plain)
    return [text for text in texts if text]


def _unquoted(text: str) -> str:
    for left, right in _QUOTES:
        inner = text[1:-1]
        if len(text) > 1 and text.startswith(left) and text.endswith(right) and left not in inner:
            return inner.strip()
    return text


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:80]}..."
