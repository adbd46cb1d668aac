"""Answerers side by side: rows, sheets, a notebook's table and the section of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from rag_assets.analysis.attribution import waterfall_rows, waterfall_sheet
from rag_assets.analysis.comparisons import stored_verdict
from rag_assets.analysis.judged import judged_rows
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.answers.answerers import AnswerCell
from rag_assets.answers.stage import answers_key
from rag_assets.answers.summary_stage import GROUPS
from rag_assets.answers.thresholds import best_threshold, reported, scored
from rag_assets.answers.waterfall_stage import RIGHT_F1
from rag_assets.evaluation.leaderboard import is_tied
from rag_assets.evaluation.query_facts import DEV, TEST
from rag_assets.evaluation.query_facts_stage import counting_of
from rag_assets.judges.calibration import JUDGED_CORRECT
from rag_assets.pipeline.written_answers import written
from rag_assets.sheets.sheet import TEXT, VALUE, Column, Sheet, interval_of, of_split
from rag_assets.statistics.comparisons import difference
from rag_assets.statistics.intervals import largest_value, number_or_none
from rag_assets.statistics.paired_differences import PairedDifferences
from rag_assets.statistics.units import Floats, splits_counted

METRICS = {
    "answer_f1": "F1",
    "answer_em": "EM",
    "evidence_cited": "evidence cited",
    "grounded": "grounded",
    "nugget_v_strict": "vital nuggets",
    "context_nugget_v_strict": "in context",
    "abstained": "abstained",
}
"""Metrics that are shown, and their headings; the first that has a value decides."""

OF_SHORT_ANSWERS = ("answer_em", "answer_f1")
"""They say little of copied sentences, and are not shown where only such were given."""


def answer_rows(
    result: EvaluationResult, questions: str = GROUPS[0], split: str | None = None
) -> list[Row]:
    """Return a row for each answerer at each cut-off, in the order of the experiment.

    Args:
        result: the evaluation.
        questions: the group of questions, of :data:`GROUPS`.
        split: that of the result when absent.

    Returns:
        ``answerer``, ``top_k``, the mean of every metric with its interval as ``<metric>_low`` and
        ``<metric>_high``, ``n_failed`` and ``n_questions``. Of each judge, over all questions with
        a right answer, ``judged_correct:<judge>`` calibrated, with its interval, ``_labels`` and
        ``_method``; and over all questions what :func:`written` says.
    """
    rows: dict[str, Row] = {}
    split, is_whole = split or result.split, questions == GROUPS[0]
    for cell in result.answer_summary.to_pylist():
        if (cell["split"], cell["questions"]) != (split, questions):
            continue
        lead = {name: cell[name] for name in ("answerer", "top_k", "split")}
        row = rows.setdefault(answerer_key(cell), lead)
        row[cell["metric"]] = cell["mean"]
        row |= {f"{cell['metric']}_{bound}": cell[bound] for bound in ("low", "high")}
        row |= {name: cell[name] for name in ("n_failed", "n_questions")}
    for key, row in rows.items() if is_whole else ():
        row |= written(result, key, split)
    for cell in judged_rows(result, split) if is_whole else ():
        if cell["metric"] == JUDGED_CORRECT and cell["name"] in rows:
            name, row = f"{JUDGED_CORRECT}:{cell['by']}", rows[cell["name"]]
            row |= {name: cell["calibrated"], f"{name}_labels": cell["n_labels"]}
            row |= {f"{name}_{part}": cell[part] for part in ("low", "high", "method")}
    return list(rows.values())


def threshold_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return where answers should be taken back by their no-answer score; none without scores.

    The value of EM is SQuAD 2.0's ``best_exact``, that of F1 its ``best_f1``, in [0, 1]; a split
    ``test`` gets the threshold that is best on ``dev``.
    """
    rows: list[Row] = []
    splits = (DEV, TEST) if result.split == TEST else (result.split,)
    for key, metrics in result.answer_metrics.items():
        answers = result.table(answers_key(key))
        names = OF_SHORT_ANSWERS if answers["score"].null_count < len(answers) else ()
        for name in (name for name in names if name in metrics.column_names):
            parts = {of: scored(answers, metrics, name, result.weights(of)) for of in splits}
            if questions := parts[result.split]:
                chosen_on = next(split for split, part in parts.items() if part)
                best = best_threshold(parts[chosen_on])
                row: Row = {"answerer": key, "metric": METRICS[name], "chosen_on": chosen_on}
                row |= reported(questions, best)
                ends = {-math.inf: "all refuse", math.inf: "none refuses"}
                rows.append({**row, "threshold": ends.get(best, best)})
    columns = (
        Column("answerer", "answerer", TEXT),
        Column("metric", "metric", TEXT),
        Column("threshold", "threshold", VALUE, help="refuse if the no-answer score is above it"),
        Column("chosen_on", "chosen on", TEXT),
        Column("as_it_is", "as it is"),
        Column("value", "with it"),
        Column("n_taken_back", "taken back", "d"),
    )
    title = f"when to refuse{of_split(result.split)}"
    return [Sheet(title, columns, rows, name="refusals")] if rows else []


def evidence_rows(result: EvaluationResult, names: Sequence[str] = tuple(METRICS)) -> list[Row]:
    """Return the means of metrics of answers by how much of the evidence the context holds.

    Questions that lose their evidence may be harder ones, so ``gained`` compares each with itself:
    where an answerer lacks evidence, and others with the same generator (another cut-off, ``gold``)
    have all of it, by how much their mean is higher.

    Returns:
        A row for each answerer and each metric of ``names``: for ``complete``, ``partial`` and
        ``none`` the mean and ``n_...`` questions; ``gained`` with ``low`` and ``high``, over
        ``n_pairs`` questions.
    """
    entries = result.evaluation.entries_of("answer_waterfall")
    tables = {entry.partition["answerer"]: result.table(entry.key) for entry in entries}
    weights = result.weights(result.split) if tables else {}
    splits = splits_counted(counting_of(result.table), weights) if weights else ()
    counted = next((each for each in splits if each.split == result.split), None)
    if counted is None:
        return []
    shares: dict[str, Floats] = {}
    for key, table in tables.items():
        labelled = counted.values(table, "n_evidence")
        labelled[labelled == 0] = np.nan
        shares[key] = counted.values(table, "n_in_context") / labelled
    options = result.configured("answers")
    generator = {key: options[key.rpartition("@")[0]]["generator"] for key in tables}
    level, rows = result.answer_summary["confidence"][0].as_py(), list[Row]()
    cells = list(product(tables, names))
    metrics = {cell: counted.values(result.answer_metrics[cell[0]], cell[1]) for cell in cells}
    for key, name in cells:
        share, values = shares[key], metrics[key, name]
        if np.isnan(share + values).all():
            continue
        row: Row = {"answerer": key, "split": result.split, "metric": name, "confidence": level}
        groups = {"complete": share == 1, "partial": (share > 0) & (share < 1), "none": share == 0}
        with_it = [np.full(len(values), np.nan)]
        for other in (other for other in shares if generator[other] == generator[key]):
            with_it.append(np.where(shares[other] == 1, metrics[other, name], np.nan))
        best = np.ma.masked_invalid(with_it).mean(axis=0).filled(np.nan)
        gained = np.where(share < 1, best - values, np.nan)
        for group, chosen in groups.items():
            given = chosen & ~np.isnan(values)
            row[group] = difference(values[given], counted.weights[given])
            row[f"n_{group}"] = int(given.sum())
        paired = PairedDifferences(counted, gained[:, None])
        (low,), (high,) = paired.intervals(level, largest_value(gained))
        pairs = ~np.isnan(gained)
        row["gained"] = difference(gained[pairs], counted.weights[pairs])
        row |= {"low": number_or_none(low), "high": number_or_none(high)}
        rows.append({**row, "n_pairs": int(pairs.sum())})
    return rows


def evidence_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return the decisive metric by evidence in the context; none where no evidence is labelled."""
    metric = decisive_metric(result)
    if not (rows := evidence_rows(result, [metric])):
        return []
    columns = [Column("answerer", "answerer", TEXT, min_width=16)]
    for name in ("complete", "partial", "none"):
        is_sparse = name == "partial"
        columns.append(Column(name, name, is_sparse=is_sparse, help="the evidence in the context"))
        columns.append(Column(f"n_{name}", "questions", "d", is_sparse=is_sparse))
    gained = "the same questions, where the same generator was given all evidence"
    bounds = ("low", "high")
    column = Column(
        "gained", "with it", "+.4f", bounds=bounds, interval=interval_of(rows), help=gained
    )
    columns += [column, Column("n_pairs", "pairs", "d")]
    title = f"{METRICS[metric]} by the evidence in the context{of_split(result.split)}"
    return [Sheet(title, columns, rows, name="evidence")]


def answers_sheet(result: EvaluationResult, questions: str = GROUPS[0]) -> Sheet | None:
    """Return the answerers; None where there is none."""
    if not (rows := answer_rows(result, questions)):
        return None
    decisive = decisive_metric(result)
    names = [name for name in METRICS if any(row.get(name) is not None for row in rows)]
    if decisive == "evidence_cited":
        names = [name for name in names if name not in OF_SHORT_ANSWERS]
    names.sort(key=lambda name: name != decisive)
    columns = (
        Column("key", "answerer", TEXT, min_width=16),
        *(
            Column(
                name,
                METRICS[name],
                bounds=(f"{name}_low", f"{name}_high"),
                # Refusing is neither good nor bad in itself.
                better=None if name == "abstained" else "more",
                interval="interval" if name == decisive else "",
                is_required=name == decisive,
            )
            for name in names
        ),
        Column("n_failed", "failed", "d", help="no answer because of an error; counts as 0"),
        Column("n_cut", "cut", "d", help="answers that end at max_tokens", is_sparse=True),
        Column("answer_length", "length", ".0f", help="characters of an answer", is_page_only=True),
        Column("length_of_gold", "x gold", ".1f", help="length / that of the longest right answer"),
        Column("answer_tokens", "tokens", ".0f", help="request and answer", is_sparse=True),
        Column("answer_cost", "money", ".2g", help="of an answer", is_sparse=True),
        Column("answer_seconds", "seconds", ".2g", help="of asking for an answer", is_sparse=True),
    )
    title = f"answers to {rows[0]['n_questions']} questions"
    return Sheet(title, columns, [{**row, "key": answerer_key(row)} for row in rows])


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
        for name, options in result.configured("generators").items()
        if options["type"] == "extractive" and options.get("model") is None
    }
    return [
        name
        for name, options in result.configured("answers").items()
        if options["generator"] in copiers
    ]


def answer_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return the sheet of the answerers, if there are any, with what limits a comparison."""
    if (sheet := answers_sheet(result)) is None:
        return []
    unanswerable = answer_rows(result, "unanswerable")
    notes = [
        f"{name} reads the relevant texts, and its context of unanswerable questions "
        f"({unanswerable[0]['n_questions']}) is empty; compare leaves them out"
        for name in (result.gold_answerers if unanswerable else ())
    ]
    rows, wanted = answer_rows(result), result.configured("answer_metrics").get("metrics") or ()
    empty = [name for name in wanted if all(row.get(name) is None for row in rows)]
    notes += [f"not defined for any question: {', '.join(empty)}"] if empty else []
    return [replace(sheet, lead=headline_sentences(result), notes=notes)]


def answers(result: EvaluationResult) -> Row | None:
    """Return the variables of the section; None where nothing was answered."""
    if not answer_rows(result):
        return None
    classes = waterfall_rows(result)
    return {
        "lead": headline_sentences(result),
        "sentences": sentence_copiers(result),
        "groups": _groups(result),
        "right": result.configured("answer_metrics").get("right", RIGHT_F1),
        "classes": waterfall_sheet("From corpus to answer", classes) if classes else None,
        "evidence": evidence_sheets(result),
    }


def headline_sentences(result: EvaluationResult) -> list[str]:
    """Return who is best by the decisive metric, and what the paired test against the next says.

    An answerer whose context no retriever ranks (``gold``, ``none``, ``random``) is a reference: it
    is never called the best.
    """
    rows, metric = answer_rows(result), decisive_metric(result)
    options = result.configured("answers")
    values = {
        answerer_key(row): row[metric]
        for row in rows
        if options.get(row["answerer"], {}).get("context") is None and row.get(metric) is not None
    }
    if not values:
        return ["No answerer to choose from: only references, or ones trained on these questions."]
    best, *ranked = sorted(values, key=lambda key: -values[key])
    sentences = [f"{best} has the highest {METRICS[metric]}, {values[best]:.4f}."]
    if not ranked:
        sentences.append("It is the only one to choose from.")
    if equal := [key for key in ranked if is_tied(values[key], values[best])]:
        sentences.append(f"The same value: {', '.join(equal)}.")
    others = [key for key in ranked if key not in equal]
    pairs = result.answer_comparisons.to_pylist()
    pairs = [row for row in pairs if (row["split"], row["metric"]) == (result.split, metric)]
    if others and (text := stored_verdict(pairs, best, others[0])) is not None:
        sentences.append(text)
    return sentences


def _groups(result: EvaluationResult) -> list[tuple[str, int, Sheet]]:
    """Return the name of each group of questions, how many they are, and its answerers."""
    groups = [
        (name, sheet.rows[0]["n_questions"], sheet)
        for name in GROUPS
        if (sheet := answers_sheet(result, name)) is not None
    ]
    # Where all questions are of one group, it is not shown twice.
    return groups[:1] if len(groups) == 2 else groups
