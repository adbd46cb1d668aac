"""Nuggets: the facts that a good answer states, and how far a text states them.

A nugget is vital or okay, and a text supports it fully (1), partly (1/2) or not (0), as in TREC RAG
2024 (arXiv:2504.15068; castorini/nuggetizer). ``nuggets.jsonl`` has an object a line. A nugget has
``query_id``, ``nugget_id``, ``text``, ``vital`` and, where a label states it, its ``evidence_id``.
A verdict on one has ``query_id``, ``nugget_id``, ``judged`` (all of the text of an answer or of a
passage) and ``support``: full, partial or not. Without a verdict, a text that holds or cites the
evidence supports the nugget fully, and another one does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from rag_assets.sources.fields import Id, Text, declared, shown
from rag_assets.sources.row_files import read_objects

SUPPORT = {"full": 1.0, "partial": 0.5, "not": 0.0}

FORMS: Mapping[str, tuple[float, bool, str]] = {
    "v_strict": (0.0, True, "fully supported vital nuggets / vital nuggets"),
    "v": (0.0, False, "support of vital nuggets / vital nuggets"),
    "a_strict": (1.0, True, "fully supported nuggets / nuggets"),
    "a": (1.0, False, "support of nuggets / nuggets"),
    "w": (0.5, False, "support of nuggets / nuggets, where an okay one counts half"),
}
"""Form -> what an okay nugget counts, whether full support alone counts, and the formula."""


class Nugget(NamedTuple):
    """A nugget of one question, and the support of texts by verdict."""

    vital: bool
    evidence_id: str | None
    verdicts: dict[str, float]


class _Nugget(msgspec.Struct):
    query_id: Id
    nugget_id: Id
    text: Text
    vital: Annotated[bool, Meta(description="true or false")]
    evidence_id: Id | None = None


class _Verdict(msgspec.Struct):
    query_id: Id
    nugget_id: Id
    judged: Text
    support: Annotated[Literal["full", "partial", "not"], Meta(description="full, partial or not")]


def read_nuggets(
    path: Path, labels: Mapping[str, Collection[str]], others: Collection[str] = ()
) -> dict[str, dict[str, Nugget]]:
    """Return question -> nugget id -> nugget.

    Args:
        path: the file.
        labels: question -> the evidence ids of its labels, for each that is evaluated.
        others: questions that are left out; their lines are not looked at.

    Raises:
        DataError: a line has another form, occurs twice, or names what is not there.
    """
    nuggets: dict[str, dict[str, Nugget]] = {query_id: {} for query_id in labels}
    for place, row in read_objects(path):
        kind: type[_Verdict | _Nugget] = _Verdict if "support" in row else _Nugget
        line = declared(row, kind, place)
        query_id, name = str(line.query_id), str(line.nugget_id)
        if query_id not in nuggets:
            if query_id in others:
                continue
            raise place.error(f"unknown query {shown(query_id)}", "query_id")
        before = nuggets[query_id].get(name)
        if (before is None) is isinstance(line, _Verdict):
            problem = "is on no line above" if before is None else "is on a line above too"
            raise place.error(f"{shown(name)} {problem}", "nugget_id")
        if isinstance(line, _Verdict):
            nuggets[query_id][name].verdicts[line.judged] = SUPPORT[line.support]
            continue
        label = None if line.evidence_id is None else str(line.evidence_id)
        if label is not None and label not in labels[query_id]:
            raise place.error(f"no label of this question has {shown(label)}", "evidence_id")
        nuggets[query_id][name] = Nugget(line.vital, label, {})
    return nuggets


def nugget_score(supports: Iterable[tuple[bool, float]], form: str) -> float:
    """Return a form for (vital, support) of each nugget; 0 where none counts, as in the track."""
    okay, is_strict, _ = FORMS[form]
    counted = [(1.0 if vital else okay, support) for vital, support in supports]
    earned = sum(n * (support == 1 if is_strict else support) for n, support in counted)
    return earned / (sum(n for n, _ in counted) or 1.0)
