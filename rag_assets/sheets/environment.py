"""What templates need: their environment, data that ends no block, and what metrics mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from rag_assets.evaluation.metric_names import parse_metric

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "rag_assets.sheets"


@cache
def templates(package: str = PACKAGE) -> Environment:
    """Return the templates of a package, which may include those of sheets.

    Each is compiled once a process, which takes longer than to fill it.
    """
    # Loaded here: tables of a terminal use the words of the page alone.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    class Templates(Environment):
        """In a mapping ``row.items`` is the key, as ``row.name`` is; its methods come second."""

        def getattr(self, obj: object, attribute: str) -> object:
            """Return a key of a mapping, or an attribute."""
            if isinstance(obj, Mapping) and attribute in obj:
                return obj[attribute]
            return super().getattr(obj, attribute)

    folders = [PackageLoader(folder, "templates") for folder in dict.fromkeys((package, PACKAGE))]
    made = Templates(
        loader=ChoiceLoader(folders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"code": _code, "meaning": meaning}
    return made


def _code(text: str) -> Markup:
    """Return an escaped text in which what stands between two backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one backtick is alone
        parts[-2:] = ["`".join(parts[-2:])]
    marked = [
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    ]
    return Markup("").join(marked)


ID_CHARACTERS = 160
"""Longer ids, titles and tags are cut."""

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def escaped_json(value: object) -> str:
    """Return compact JSON in which ``<``, ``>``, ``&`` and the line separators are escaped.

    A lone surrogate, which no UTF-8 file can hold, is escaped too.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.translate(_ESCAPES)


def shortened(text: str, characters: int = ID_CHARACTERS) -> str:
    """Return the text, cut behind so many characters, with dots for the rest."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number that takes few characters; None where there is none."""
    return None if value is None else round(value, digits)


METRICS = {
    "hit_rate": "the share of questions for which at least one right result is among the first k",
    "mrr": "how high the first right result ranks: 1 when it is first, 1/2 when it is second, 1/3 "
    "when it is third; 0 when it is not among the first k; the mean over questions",
    "ndcg": "how much of what is right is among the first k, with higher ranks counting more: "
    "1 is the best possible order, 0 means nothing right is there",
    "recall": "how much of what is right for a question is among the first k",
    "precision": "how much of the first k is right",
    "map": "the average precision at the ranks of right results; high when all that is "
    "right is found early",
    "f1": "one number for precision and recall together; low when one of the two is low",
}
"""Metric -> what it says; k is the cut-off."""


def meaning(metric: str) -> str:
    """Return what a metric, with or without cut-off, says; empty where there is no plain word."""
    return METRICS.get(parse_metric(metric).measure, "")
