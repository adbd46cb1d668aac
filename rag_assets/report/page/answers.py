"""The section of answers: who is best, what perfect retrieval is worth, where answers are lost.

An answerer whose context no retriever ranks (``gold``, ``none``, ``random``) is a reference: it
is never called the best.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.answers.options import GOLD, NONE, RANDOM, AnswerCell
from rag_assets.answers.summary import GROUPS
from rag_assets.answers.waterfall import RIGHT_F1
from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.report.answer_waterfall import (
    CLASS_NAMES,
    answer_flow,
    by_answerer,
    present_classes,
    waterfall_rows,
)
from rag_assets.report.answers import (
    METRICS,
    answer_rows,
    answerer_key,
    answers_sheet,
    configured,
    decisive_metric,
    sentence_copiers,
)
from rag_assets.report.comparisons import power_text
from rag_assets.report.formats import Row, p_text
from rag_assets.report.sheet import Sheet
from rag_assets.report.view import Context, View
from rag_assets.statistics.significance import is_significant

COMPARED = ("answer_f1", "answer_em", "evidence_cited")
"""Metrics by which references are compared with retrievers."""

WORTH = {
    GOLD: "with all evidence and nothing else: what the retriever still costs",
    NONE: "without any context: what the generator does alone",
    RANDOM: "with as many units drawn by chance: what any text does",
}

MOST_PAIRS = 12


def answers(view: View) -> Context | None:
    """Return the variables of the section; None where nothing was answered."""
    rows = answer_rows(view.result, view.split)
    if not rows:
        return None
    metric = decisive_metric(view.result)
    classes = waterfall_rows(view.result, view.split)
    answerers = by_answerer(classes)
    return {
        "head": headline(view, rows, metric),
        "sentences": sentence_copiers(view.result),
        "groups": _groups(view),
        "n_questions": rows[0]["n_questions"],
        "worth": _worth(view, metric),
        "n_unanswerable": _n_unanswerable(view),
        "right": configured(view.result, "answer_metrics").get("right", RIGHT_F1),
        "answerers": list(answerers),
        "classes": [
            {"name": CLASS_NAMES[one], "cells": [found.get(one) for found in answerers.values()]}
            for one in present_classes(classes)
        ],
        "totals": [sum(int(str(r["n"])) for r in one.values()) for one in answerers.values()],
        **(
            {
                "data": {
                    "names": list(answerers),
                    "flows": [answer_flow(one) for one in answerers.values()],
                }
            }
            if answerers
            else {}
        ),
    }


def headline(view: View, rows: Sequence[Row], metric: str) -> Context:
    """Return who is best by ``metric``, and what the paired test against the next says.

    Keys: ``best`` (``name@k``, or None), ``value``, ``low``, ``high``, ``metric`` (its heading),
    ``equal`` (those with the same value), ``next`` (a comparison, or None), ``candidates`` (how
    many answerers were to choose from).
    """
    values = {
        answerer_key(row): value
        for row in rows
        if _is_candidate(view, row) and (value := _mean(row, metric)) is not None
    }
    if not values:
        return {"best": None}
    best, *ranked = sorted(values, key=lambda key: -values[key])
    value, row = values[best], next(row for row in rows if answerer_key(row) == best)
    equal = [key for key in ranked if is_tied(values[key], value)]
    others = [key for key in ranked if key not in equal]
    return {
        "best": best,
        "metric": METRICS[metric],
        "value": value,
        "low": row[f"{metric}_low"],
        "high": row[f"{metric}_high"],
        "equal": equal,
        "next": compared(view, metric, best, others[0]) if others else None,
        "candidates": len(values),
        "n_failed": row["n_failed"],
    }


def answers_said(head: Context) -> list[str]:
    """Return a :func:`headline` in a sentence or two."""
    if not head["best"]:
        return []
    said = [f"{head['best']} has the highest {head['metric']}, {head['value']:.4f}."]
    if head["equal"]:
        said.append(f"The same value: {', '.join(head['equal'])}.")
    if head["next"]:
        real = "real" if head["next"]["shown"] else "not shown to be real"
        lead = f"{head['next']['difference']:+.4f} against {head['next']['other']}"
        said.append(f"{lead}: the difference is {real}, p = {head['next']['p']}.")
    return said


def compared(view: View, metric: str, one: str, other: str) -> Context | None:
    """Return how far ``one`` is above ``other`` on the same questions; None: not compared."""
    for row in view.result.answer_comparisons.to_pylist():
        names = (row["answerer_a"], row["answerer_b"])
        if (row["split"], row["metric"]) != (view.split, metric) or set(names) != {one, other}:
            continue
        if row["difference"] is None or one == other:
            return None
        sign = 1 if names[1] == one else -1
        low, high = (row["low"], row["high"])[::sign]
        return {
            "one": one,
            "other": other,
            "metric": METRICS[metric],
            "difference": sign * row["difference"],
            "low": None if low is None else sign * low,
            "high": None if high is None else sign * high,
            "p": p_text(p if (p := row["p_adjusted"]) is not None else row["p_randomisation"]),
            "shown": is_significant(row),
            "power": power_text(row, "questions"),
            "n": row["n"],
        }
    return None


def _is_candidate(view: View, row: Row) -> bool:
    """Return whether an answerer can be chosen: it is no reference."""
    options = configured(view.result, "answers").get(str(row["answerer"]), {})
    return options.get("context") is None


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
    """Return each reference with its differences from the retrievers of the same generator.

    Args:
        view: the evaluation.
        first: the metric that is shown first.
    """
    options_of = configured(view.result, "answers")
    cells = _cells(view)
    answerable = answer_rows(view.result, view.split, "answerable")
    means = {(answerer_key(row), name): _mean(row, name) for row in answerable for name in COMPARED}
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
            {
                **pair,
                "answerable": _gain(*(means.get((key, name)) for key in (cell.key, other.key))),
            }
            for other in others
            for name in sorted(COMPARED, key=lambda one: one != first)
            if (pair := compared(view, name, cell.key, other.key)) is not None
        ]
        if pairs:
            refuses = options["context"] == GOLD and bool(_n_unanswerable(view))
            worth = {"name": cell.key, "says": WORTH[options["context"]], "refuses": refuses}
            parts.append({**worth, "pairs": pairs[:MOST_PAIRS]})
    return parts


def _mean(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if isinstance(value, float) else None


def _gain(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _n_unanswerable(view: View) -> int:
    rows = answer_rows(view.result, view.split, "unanswerable")
    return int(str(rows[0]["n_questions"])) if rows else 0


def _cells(view: View) -> list[AnswerCell]:
    rows = view.result.answer_summary.select(["answerer", "top_k"]).to_pylist()
    return list(dict.fromkeys(AnswerCell(row["answerer"], row["top_k"]) for row in rows))
