"""Answerers side by side: rows, sheets, a notebook's table and the section of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rag_assets.answers.options import GOLD, NONE, RANDOM, AnswerCell
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.answers.waterfall_stage import RIGHT_F1
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.report.answer_waterfall import answer_flows, waterfall_rows, waterfall_sheet
from rag_assets.report.comparison_views import oriented_pair, p_texts
from rag_assets.report.judged import judged_rows
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.report.view import Context, View

METRICS = {
    "answer_f1": "F1",
    "answer_em": "EM",
    "evidence_cited": "evidence cited",
    "grounded": "grounded",
    "abstained": "abstained",
}
"""Metrics that are shown, and their headings; the first that has a value decides."""

OF_SHORT_ANSWERS = ("answer_em", "answer_f1")
"""They say little of copied sentences, and are not shown where only such were given."""


def answer_rows(result: EvaluationResult, split: str, questions: str = "all") -> list[Row]:
    """Return a row for each answerer at each cut-off, in the order of the experiment.

    Returns:
        ``answerer``, ``top_k``, the mean of every metric with its interval as ``<metric>_low`` and
        ``<metric>_high``, ``n_failed`` and ``n_questions``. Of each judge, over all questions with
        a right answer, ``judged_correct:<judge>`` calibrated, with its interval, ``_labels`` and
        ``_method``.
    """
    rows: dict[tuple[str, int | None], Row] = {}
    for one in result.answer_summary.to_pylist():
        if (one["split"], one["questions"]) != (split, questions):
            continue
        row = rows.setdefault(
            (one["answerer"], one["top_k"]),
            {name: one[name] for name in ("answerer", "top_k", "split")},
        )
        row[one["metric"]] = one["mean"]
        row |= {f"{one['metric']}_{bound}": one[bound] for bound in ("low", "high")}
        row |= {name: one[name] for name in ("n_failed", "n_questions")}
    for one in judged_rows(result, split) if questions == GROUPS[0] else ():
        name = f"{JUDGED_CORRECT}:{one['by']}"
        calibrated = {name: one["calibrated"], f"{name}_labels": one["n_labels"]}
        calibrated |= {f"{name}_{part}": one[part] for part in ("low", "high", "method")}
        for (answerer, top_k), row in rows.items():
            if one["metric"] == JUDGED_CORRECT and AnswerCell(answerer, top_k).key == one["name"]:
                row |= calibrated
    return list(rows.values())


def answers_sheet(result: EvaluationResult, split: str, questions: str = GROUPS[0]) -> Sheet | None:
    """Return the answerers; None where there is none."""
    rows = answer_rows(result, split, questions)
    if not rows:
        return None
    decisive = decisive_metric(result)
    names = [name for name in METRICS if any(row.get(name) is not None for row in rows)]
    if decisive == "evidence_cited":
        names = [name for name in names if name not in OF_SHORT_ANSWERS]
    names.sort(key=lambda name: name != decisive)
    columns = (
        Column("key", "answerer", TEXT, min_width=16),
        *(_column(name, is_required=name == decisive) for name in names),
        Column("n_failed", "failed", "d", help="no answer, because something went wrong; counts 0"),
    )
    title = f"answers to {rows[0]['n_questions']} questions"
    return Sheet(title, columns, [{**row, "key": answerer_key(row)} for row in rows])


def _column(name: str, *, is_required: bool) -> Column:
    return Column(
        name,
        METRICS[name],
        bounds=(f"{name}_low", f"{name}_high"),
        # Refusing is neither good nor bad in itself.
        better=None if name == "abstained" else "more",
        interval="interval" if is_required else "",
        is_required=is_required,
    )


def answerer_key(row: Row) -> str:
    """Return the name of an answerer at its cut-off."""
    return AnswerCell(row["answerer"], row["top_k"]).key


def decisive_metric(result: EvaluationResult) -> str:
    """Return F1, which is of short answers; where only sentences are copied, evidence cited."""
    rows = result.answer_summary.to_pylist()
    present = {row["metric"] for row in rows if row["mean"] is not None}
    copied = {row["answerer"] for row in rows} <= set(sentence_copiers(result))
    preferred = ("evidence_cited", *METRICS) if copied else tuple(METRICS)
    return next((name for name in preferred if name in present), "abstained")


def sentence_copiers(result: EvaluationResult) -> list[str]:
    """Return the answerers whose generator has no model, and copies whole sentences."""
    copiers = {
        name
        for name, options in configured(result, "generators").items()
        if options["type"] == "extractive" and options.get("model") is None
    }
    return [
        name
        for name, options in configured(result, "answers").items()
        if options["generator"] in copiers
    ]


def configured(result: EvaluationResult, block: str) -> Mapping[str, Any]:
    """Return a block of the configuration that an evaluation was made with."""
    options: Mapping[str, Any] = result.evaluation.origin.configuration.get(block, {})
    return options


def answer_sheets(result: EvaluationResult, split: str) -> list[Sheet]:
    """Return the sheet of the answerers, if there are any, with what limits a comparison."""
    sheet = answers_sheet(result, split)
    if sheet is None:
        return []
    unanswerable = answer_rows(result, split, "unanswerable")
    notes = [
        f"{name} reads the relevant texts: {unanswerable[0]['n_questions']} questions have none, "
        "and it refuses them by itself; compare is on the others"
        for name in (result.gold_answerers if unanswerable else ())
    ]
    return [replace(sheet, notes=notes)]


def answers_table(result: EvaluationResult) -> pa.Table:
    """Return the rows of :func:`answer_rows` of all splits and groups of questions.

    Raises:
        NotEvaluated: there are none.
    """
    rows = [
        {**row, "questions": group}
        for split in dict.fromkeys(result.answer_summary["split"].to_pylist())
        for group in GROUPS
        for row in answer_rows(result, split, group)
    ]
    if not rows:
        name = result.evaluation.experiment
        raise NotEvaluated(f"the last evaluation of {name} has no answers")
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


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
    if not answer_rows(view.result, view.split):
        return None
    classes = waterfall_rows(view.result, view.split)
    section = {
        "head": headline(view),
        "sentences": sentence_copiers(view.result),
        "groups": _groups(view),
        "worth": _worth(view),
        "n_unanswerable": _n_unanswerable(view),
        "right": configured(view.result, "answer_metrics").get("right", RIGHT_F1),
        "classes": waterfall_sheet("From corpus to answer", classes) if classes else None,
    }
    return {**section, "data": answer_flows(classes)} if classes else section


def headline(view: View) -> Context:
    """Return who is best by the decisive metric, and what the paired test against the next says.

    Keys: ``best`` (``name@k``, or None), ``value``, ``low``, ``high``, ``metric`` (its heading),
    ``equal`` (those with the same value), ``next`` (a comparison, or None), ``candidates`` (how
    many answerers were to choose from). One whose context no retriever ranks (``gold``, ``none``,
    ``random``) is a reference: it is never called the best.
    """
    rows, metric = answer_rows(view.result, view.split), decisive_metric(view.result)
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
    head = headline(view)
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


def _worth(view: View) -> list[Context]:
    """Return each reference with its differences from the retrievers of the same generator."""
    metrics = sorted(COMPARED, key=lambda one: one != decisive_metric(view.result))
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
            for name in metrics
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
