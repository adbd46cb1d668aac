"""What templates need: their environment, data that ends no block, and the words of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.view import Context, View

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE = "rag_assets.report.page"


@cache
def templates() -> Environment:
    """Return the templates; each is compiled once a process, which takes longer than to fill it."""
    # Loaded here: tables of a terminal use the words of the page alone.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    class Templates(Environment):
        """In a mapping ``row.items`` is the key, as ``row.name`` is; its methods come second."""

        def getattr(self, obj: object, attribute: str) -> object:
            """Return a key of a mapping, or an attribute."""
            if isinstance(obj, Mapping) and attribute in obj:
                return obj[attribute]
            return super().getattr(obj, attribute)

    made = Templates(
        loader=PackageLoader(PACKAGE, "templates"),
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
    shown = [
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(parts)
    ]
    return Markup("").join(shown)


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


def json_block(value: object) -> Markup:
    """Return :func:`escaped_json` for a template, which must not escape it again."""
    return Markup(escaped_json(value))


def shortened(text: str, characters: int = ID_CHARACTERS) -> str:
    """Return the text, cut behind so many characters, with dots for the rest."""
    return text if len(text) <= characters else f"{text[:characters]}..."


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number that takes few characters; None where there is none."""
    return None if value is None else round(value, digits)


METRICS = {
    "hit_rate": "the share of questions for which at least one right result is among the first k",
    "mrr": "how high the first right result stands: 1 when it is first, 1/2 when it is second, 1/3 "
    "when it is third; 0 when it is not among the first k; the mean over questions",
    "ndcg": "how much of what is right is among the first k, where a higher place counts more: 1 "
    "when no order could be better, 0 when nothing right is there",
    "recall": "how much of what is right for a question is among the first k",
    "precision": "how much of the first k is right",
    "map": "the precision at each place of a right result, averaged: high when all that is right "
    "is found early",
    "f1": "one number for precision and recall together; low when one of the two is low",
}
"""Metric -> what it says; k is the cut-off."""

WORDS = {
    "retriever": "a way to search: it gives an ordered list of passages for a question",
    "@k, top_k": "only the first k results count: ndcg@10 looks at the first ten",
    "label": "what a person said of a question and a passage: right, or not",
    "interval": "where the mean lies most likely, were other questions of the same kind asked",
    "p": "how often chance alone gives so large a difference; below .05 a difference is called "
    "real",
    "Holm": "a correction of p for many comparisons at once: of twenty between equals, one is "
    "below .05 by chance",
    "tied": "the difference is not shown to be real; it may be there, and more questions may show "
    "it",
    "baseline": "the retriever that the others are measured by",
    "tokens of context": "how much text the results are for a language model; a token is about "
    "three quarters of a word",
    "cluster": "questions that share documents: they are right or wrong together, so they count "
    "as fewer",
}
"""Word -> what it means on a page with metrics."""

SPLIT = {"split": "dev questions are for choosing settings, test questions for judging them"}

WITHOUT_LABELS = {
    "label": WORDS["label"],
    "retriever": WORDS["retriever"],
    "top_k": "only the first k results count",
    "overlap": "the share of the first k results that two retrievers have in common",
    "unit": "two retrievers are compared by their passages; by their documents where they cut "
    "these differently",
}
"""Word -> what it means on a page without labels."""

ANSWERS = {
    "answerer": "what writes an answer from the first passages of a retriever; @3: from three",
    "evidence cited": "how well the passages that an answer cites are those with the evidence: 1 "
    "when they are these and no others",
    "F1": "how many words an answer and the right answer have in common, from 0 to 1",
    "EM": "the share of answers that are the right answer word for word",
    "abstained": "the share of answers that refuse to answer",
    "grounded": "the share of an answer's words that stand in what was retrieved",
}
"""Word -> what it means of answers."""


def meaning(metric: str) -> str:
    """Return what a metric, with or without cut-off, says; empty where there is no plain word."""
    return METRICS.get(parse_metric(metric).measure, "")


def glossary(view: View) -> Context:
    """Return the words of the page, metrics first."""
    words = dict(WITHOUT_LABELS)
    if view.result.has_metrics:
        metrics = {name: meaning(name) for name in view.measures if meaning(name)}
        words = metrics | WORDS | (SPLIT if view.split != ALL else {})
    if view.result.answer_metrics:
        words |= ANSWERS
    return {"terms": list(words.items())}
