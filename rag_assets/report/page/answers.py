"""The section of answers: who is best, what perfect retrieval is worth, where answers are lost.

An answerer whose context no retriever ranks (``gold``, ``none``, ``random``) is a reference: it
is never called the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_assets.answers.options import GOLD, NONE, RANDOM, AnswerCell
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.answers.waterfall_stage import RIGHT_F1
from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.report.answer_waterfall import answer_flows, waterfall_rows, waterfall_sheet
from rag_assets.report.answers import (
    METRICS,
    answer_rows,
    answerer_key,
    answers_sheet,
    configured,
    decisive_metric,
    sentence_copiers,
)
from rag_assets.report.comparison_views import oriented_pair, p_texts
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.report.view import Context, View

Row = dict[str, Any]

COMPARED = ("answer_f1", "answer_em", "evidence_cited")
"""Metrics by which references are compared with retrievers."""

WORTH = {
    GOLD: "with all evidence and nothing else: what the retriever still costs",
    NONE: "without any context: what the generator does alone",
    RANDOM: "with as many units drawn by chance: what any text does",
}

MAX_PAIRS = 12


def answers(view: View) -> Context | None:
    """Return the variables of the section; None where nothing was answered."""
    rows = answer_rows(view.result, view.split)
    if not rows:
        return None
    metric = decisive_metric(view.result)
    classes = waterfall_rows(view.result, view.split)
    section = {
        "head": headline(view, rows, metric),
        "sentences": sentence_copiers(view.result),
        "groups": _groups(view),
        "worth": _worth(view, metric),
        "n_unanswerable": _n_unanswerable(view),
        "right": configured(view.result, "answer_metrics").get("right", RIGHT_F1),
        "classes": waterfall_sheet("From corpus to answer", classes) if classes else None,
    }
    return {**section, "data": answer_flows(classes)} if classes else section


def headline(view: View, rows: Sequence[Row], metric: str) -> Context:
    """Return who is best by ``metric``, and what the paired test against the next says.

    Keys: ``best`` (``name@k``, or None), ``value``, ``low``, ``high``, ``metric`` (its heading),
    ``equal`` (those with the same value), ``next`` (a comparison, or None), ``candidates`` (how
    many answerers were to choose from).
    """
    options = configured(view.result, "answers")
    values = {
        answerer_key(row): row[metric]
        for row in rows
        if options.get(row["answerer"], {}).get("context") is None and row.get(metric) is not None
    }
    if not values:
        return {"best": None}
    best, *ranked = sorted(values, key=lambda key: -values[key])
    row = next(row for row in rows if answerer_key(row) == best)
    equal = [key for key in ranked if is_tied(values[key], values[best])]
    others = [key for key in ranked if key not in equal]
    return {
        "best": best,
        "metric": METRICS[metric],
        "value": values[best],
        "low": row[f"{metric}_low"],
        "high": row[f"{metric}_high"],
        "equal": equal,
        "next": compared(view, metric, best, others[0]) if others else None,
        "candidates": len(values),
    }


def headline_sentences(view: View) -> list[str]:
    """Return the :func:`headline` of an evaluation in a sentence or two."""
    rows = answer_rows(view.result, view.split)
    head = headline(view, rows, decisive_metric(view.result))
    if not head["best"]:
        return []
    sentences = [f"{head['best']} has the highest {head['metric']}, {head['value']:.4f}."]
    if head["equal"]:
        sentences.append(f"The same value: {', '.join(head['equal'])}.")
    if pair := head["next"]:
        real = "real" if pair["mark"] else "not shown to be real"
        lead = f"{pair['difference']:+.4f} against {pair['other']}"
        sentences.append(f"{lead}: the difference is {real}, p = {pair['p']}.")
    return sentences


def compared(view: View, metric: str, first: str, other: str) -> Context | None:
    """Return how far ``first`` is above ``other`` on the same questions; None: not compared."""
    rows = view.result.answer_comparisons.to_pylist()
    own = [row for row in rows if (row["split"], row["metric"]) == (view.split, metric)]
    row = oriented_pair(own, first, other)
    if row is None:
        return None
    texts = p_texts(row, "questions")
    return {**row, "heading": METRICS[metric], **texts, "p": texts["holm"] or texts["p"]}


def _groups(view: View) -> list[tuple[str, int, Sheet]]:
    """Return the name of each group of questions, how many they are, and its answerers."""
    groups = [
        (name, sheet.rows[0]["n_questions"], sheet)
        for name in GROUPS
        if (sheet := answers_sheet(view.result, view.split, name)) is not None
    ]
    # Where all questions are of one group, it is not shown twice.
    return groups[:1] if len(groups) == 2 else groups


def _worth(view: View, first: str) -> list[Context]:
    """Return each reference with its differences from the retrievers of the same generator."""
    options_of = configured(view.result, "answers")
    answerable = answer_rows(view.result, view.split, "answerable")
    means = {(answerer_key(row), name): row.get(name) for row in answerable for name in COMPARED}
    cells = [
        AnswerCell(row["answerer"], row["top_k"]) for row in answer_rows(view.result, view.split)
    ]
    parts = []
    for cell in cells:
        options = options_of.get(cell.name, {})
        if options.get("context") not in WORTH:
            continue
        others = [
            other
            for other in cells
            if (own := options_of.get(other.name, {})).get("context") is None
            and own.get("retriever") is not None
            and own["generator"] == options["generator"]
            and (options["context"] != RANDOM or other.top_k == cell.top_k)
        ]
        pairs = [
            {**pair, "answerable": _gain(means, name, cell.key, other.key)}
            for other in others
            for name in sorted(COMPARED, key=lambda one: one != first)
            if (pair := compared(view, name, cell.key, other.key)) is not None
        ]
        if pairs:
            refuses = options["context"] == GOLD and bool(_n_unanswerable(view))
            sheet = Sheet(f"{cell.key} against retrievers", _WORTH, pairs[:MAX_PAIRS], name="worth")
            worth = {"name": cell.key, "says": WORTH[options["context"]], "refuses": refuses}
            parts.append({**worth, "sheet": sheet})
    return parts


_WORTH = (
    Column("other", "against", TEXT),
    Column("heading", "metric", TEXT),
    Column("difference", "difference", SIGNED, bounds=("low", "high"), mark="mark"),
    Column("p", "p", help="after Holm"),
    Column("answerable", "answerable", SIGNED, help="on these questions alone", is_sparse=True),
)


def _gain(
    means: dict[tuple[str, str], float | None], name: str, first: str, other: str
) -> float | None:
    value, against = means.get((first, name)), means.get((other, name))
    return None if value is None or against is None else value - against


def _n_unanswerable(view: View) -> int:
    rows = answer_rows(view.result, view.split, "unanswerable")
    return rows[0]["n_questions"] if rows else 0
