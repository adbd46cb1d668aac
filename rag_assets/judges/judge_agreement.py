"""A judge beside people: equal grades, the order of systems, and kindness to its own family.

Of answers people's labels are those of ``answer_labels``; a blank or failed answer is wrong without
being asked about, and has no part here. Of passages they are labels of passages, else the qrels: a
document is as relevant as its best passage, and what people did not judge has no part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.judges.answer_labels import needs_person
from rag_assets.judges.base import HIGHEST, RELEVANCE
from rag_assets.judges.calibration import LABEL, VERDICT
from rag_assets.judges.trials import POSITIVE
from rag_assets.statistics.agreement import (
    Agreement,
    OrderAgreement,
    agreement,
    order_agreement,
)
from rag_assets.statistics.intervals import bounded_intervals
from rag_assets.statistics.units import Floats, Resampling, units_of

MIN_QUESTIONS = 10
"""Labelled questions that an order of systems, or a judge's kindness, is told from."""

Place = tuple[str, str]
"""A question and a document."""


def answer_agreement(tables: Collection[pa.Table], level: float) -> Agreement | None:
    """Compare labels and verdicts on all distinct answers; None without a label.

    Args:
        tables: of :data:`rag_assets.judges.calibration.JUDGED`, one an answerer.
        level: of the intervals.
    """
    pairs = {
        (row["query_id"], row["answer"]): (row[LABEL], row[VERDICT])
        for table in tables
        for row in table.to_pylist()
        if needs_person(row["answer"]) and row[LABEL] is not None
    }
    return _agreement(list(pairs.values()), 2, 1, level)


def document_agreement(
    labels: Mapping[Place, int], verdicts: Mapping[Place, int | None], level: float
) -> Agreement | None:
    """Compare people's and the judge's grades of documents; None where people judged none of them.

    Args:
        labels: grades of people; where all are 0 and 1, the judge's 2 and 3 count as 1.
        verdicts: the judge's grades.
        level: of the intervals.
    """
    graded = max(labels.values(), default=0) > 1
    highest, positive = (HIGHEST[RELEVANCE], POSITIVE[RELEVANCE]) if graded else (1, 1)
    pairs = []
    for place, grade in verdicts.items():
        if place in labels:
            label = min(max(labels[place], 0), highest)
            said = grade if graded or grade is None else int(grade >= POSITIVE[RELEVANCE])
            pairs.append((label, said))
    return _agreement(pairs, highest + 1, positive, level)


def _agreement(
    pairs: Sequence[tuple[float, float | None]], n_grades: int, positive: int, level: float
) -> Agreement | None:
    if not pairs:
        return None
    labels, verdicts = (
        np.array([np.nan if one is None else one for one in side], np.float64)
        for side in zip(*pairs, strict=True)
    )
    return agreement(labels, verdicts, n_grades=n_grades, positive_from=positive, level=level)


def better_than_chance(found: Agreement) -> float | None:
    """Return Youden's J, sensitivity + specificity - 1: 0 for who guesses or says one thing only.

    None where people call all positive, or all negative.
    """
    rates = (found.sensitivity.value, found.specificity.value)
    return None if None in rates else sum(rate for rate in rates if rate is not None) - 1


def answer_order(
    tables: Mapping[str, pa.Table], clusters: Mapping[str, str], resampling: Resampling
) -> OrderAgreement | None:
    """Compare the order of answerers on the questions whose answers all have label and verdict.

    None with fewer than two answerers or :data:`MIN_QUESTIONS` questions.

    Args:
        tables: answerer -> table of :data:`rag_assets.judges.calibration.JUDGED`.
        clusters: question -> its cluster.
        resampling: how often, at which level, from which seed.
    """
    columns = [(_values(table, LABEL), _values(table, VERDICT)) for table in tables.values()]
    known = [
        one
        for one in sorted(clusters)
        if all(own.get(one) is not None for pair in columns for own in pair)
    ]
    if len(columns) < 2 or len(known) < MIN_QUESTIONS:
        return None
    labels, verdicts = (
        np.array([[pair[side][one] for pair in columns] for one in known], np.float64)
        for side in (0, 1)
    )
    names = [clusters[one] for one in known]
    return order_agreement(labels, verdicts, resampling, clusters=names)


def document_order(
    runs: Mapping[str, Collection[Place]],
    labels: Mapping[Place, int],
    verdicts: Mapping[Place, int | None],
    resampling: Resampling,
) -> OrderAgreement | None:
    """Compare the order of retrievers by the share of relevant ones among the judged documents.

    Only documents that both judged count. None with fewer than two retrievers, or fewer than
    :data:`MIN_QUESTIONS` questions in which every retriever has one.

    Args:
        runs: retriever -> the documents of its runs.
        labels: grades of people.
        verdicts: the judge's grades.
        resampling: how often, at which level, from which seed.
    """
    lowest = POSITIVE[RELEVANCE] if max(labels.values(), default=0) > 1 else 1
    shares: list[dict[str, tuple[float, float]]] = []
    for places in runs.values():
        of_query: dict[str, list[tuple[bool, bool]]] = {}
        for place in places:
            said = verdicts.get(place)
            if place in labels and said is not None:
                pair = (labels[place] >= lowest, said >= POSITIVE[RELEVANCE])
                of_query.setdefault(place[0], []).append(pair)
        means = {one: np.mean(pairs, axis=0).tolist() for one, pairs in of_query.items()}
        shares.append({one: (label, said) for one, (label, said) in means.items()})
    known = sorted(set.intersection(*map(set, shares))) if shares else []
    if len(shares) < 2 or len(known) < MIN_QUESTIONS:
        return None
    people, judge = (
        np.array([[own[one][side] for own in shares] for one in known], np.float64)
        for side in (0, 1)
    )
    return order_agreement(people, judge, resampling, clusters=None)


def kindness(
    tables: Mapping[str, pa.Table],
    relatives: Collection[str],
    clusters: Mapping[str, str],
    level: float,
) -> tuple[float, float, float, int] | str:
    """Return by how much more the judge errs in favour of its own family than of others.

    On each labelled question, (verdict - label) of the family's answerers less that of the others,
    each a mean; with its interval over clusters, and how many questions.

    Args:
        tables: answerer -> table of :data:`rag_assets.judges.calibration.JUDGED`.
        relatives: the answerers of the judge's family.
        clusters: question -> its cluster.
        level: of the interval.

    Returns:
        (value, low, high, questions), or why it cannot be told, as a phrase.
    """
    if not relatives:
        return "no answerer is of the judge's family"
    if len(relatives) == len(tables):
        return "all answerers are of the judge's family"
    errors: dict[str, Mapping[str, float]] = {}
    for name, table in tables.items():
        labels, verdicts = _values(table, LABEL), _values(table, VERDICT)
        errors[name] = {
            one: said - labels[one]
            for one, said in verdicts.items()
            if said is not None and labels[one] is not None
        }
    known = [one for one in sorted(clusters) if all(one in own for own in errors.values())]
    if len(known) < MIN_QUESTIONS:
        return f"{len(known)} questions have labels of all answers; {MIN_QUESTIONS} are needed"
    differences: Floats = np.array(
        [
            np.mean([errors[n][one] for n in errors if n in relatives])
            - np.mean([errors[n][one] for n in errors if n not in relatives])
            for one in known
        ]
    )
    units = units_of(differences[:, None], np.ones(len(known)), [clusters[one] for one in known])
    low, high = bounded_intervals(units, level, -2.0, 2.0)  # each error is between -1 and 1
    return float(differences.mean()), float(low[0]), float(high[0]), len(known)


def _values(table: pa.Table, column: str) -> dict[str, Any]:
    return dict(zip(table["query_id"].to_pylist(), table[column].to_pylist(), strict=True))
