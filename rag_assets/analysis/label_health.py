"""What labels and queries are worth: the status of a sample, findings, query accounting.

The sheet of findings is that of `validate`; the section of the page says how many queries each
number is over, what failed, and what is unsure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rag_assets import schemas
from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.leaderboard import MEANINGS
from rag_assets.analysis.metric_sources import Retrieval
from rag_assets.analysis.result import LEADING, EvaluationResult, Row, grouped
from rag_assets.analysis.sampled import estimates_sheet
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.findings import queries_without_relevant
from rag_assets.labels.logs import (
    LEFT_OUT,
    PERSON,
    LoggedJudgment,
    left_out,
    mark_counts,
    mark_counts_text,
    read_marks,
    source_counts,
)
from rag_assets.labels.pool import LINEAR, sampled_metrics
from rag_assets.labels.questions import authors_note
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.labels.sampling.sample_stage import (
    ITEMS,
    PRICE,
    QUESTIONS,
    estimate_rows,
    part_notes,
    sample_status,
)
from rag_assets.sheets.sheet import SIGNED, TEXT, Column, Sheet

FINDING_STYLES = {"error": "bold red", "warning": "yellow"}
"""Severity of a finding -> how a terminal draws it."""


def findings_sheet(findings: Sequence[Row], limit: int) -> Sheet:
    """Return of each kind the first ``shown`` findings, and how many more there are."""
    lines: list[Row] = []
    for check, rows in grouped(findings, "check").items():
        lines += [{**row, "finding": f"{_where(row)}{row['message']}"} for row in rows[:limit]]
        if len(rows) > limit:
            more = f"... and {len(rows) - limit} more; --format csv lists all"
            lines.append({"severity": "", "check": check, "finding": more})
    columns = (
        Column("severity", "severity", TEXT, is_whole=True, missing=""),
        Column("check", "check", TEXT),
        Column("finding", "finding", TEXT),
    )
    return Sheet("", columns, lines)


def _where(row: Row) -> str:
    """Return file and line where they are known, else the ids, and a colon."""
    if row["file"] is not None:
        line = f":{row['line']}" if row["line"] is not None else ""
        return f"{row['file']}{line}: "
    ids = [f"{n} {row[f'{n}_id']}" for n in ("query", "document") if row[f"{n}_id"] is not None]
    return f"{', '.join(ids)}: " if ids else ""


ENOUGH_JUDGED = 0.5
"""From this share of judged units at the primary cut-off on, nothing is said."""


def pooling_advice(result: EvaluationResult) -> str | None:
    """Return one sentence when people should judge what was retrieved; None when enough is judged.

    Without labels always. With labels when, at the primary metric's cut-off, less than half of the
    units of some retriever are judged: unjudged ones count as not relevant, so a retriever that
    finds something new looks worse than it is.
    """
    if result.sampled_primary is not None:
        return "other metrics need all passages graded: with `rag-assets label`, or in a sheet"
    if not result.has_metrics:
        return "to get metrics, grade what was found: with `rag-assets label`, or in a sheet"
    shares = {row["retriever"]: row["judged"] for row in result.at_cutoff if "judged" in row}
    if not shares or min(shares.values()) >= ENOUGH_JUDGED:
        return None
    name = min(shares, key=lambda retriever: shares[retriever])
    return (
        f"only {shares[name]:.0%} of what {name} retrieved at top_k {result.primary.cutoff} is "
        "judged; the rest counts as not relevant, so judge more"
    )


_ELSEWHERE = {*LEADING, "tokens", "weight"}


def accounting_columns(
    stored: Iterable[schemas.Column] = schemas.LEADERBOARD.columns,
) -> Iterator[Column]:
    """Yield the columns that say what the means are over: all stored ones without a place."""
    yield Column("retriever", "retriever", TEXT, help=MEANINGS["retriever"])
    for column in stored:
        if column.name not in _ELSEWHERE:
            is_mean = column.type in ("double", "float")
            form = ".0%" if column.name == "judged" else ".4f" if is_mean else "d"
            title = column.name.removeprefix("n_").replace("_", " ")
            yield Column(column.name, title, form, help=column.meaning)


MAX_FAILED = 20
"""Failed queries of one retriever, or answerer, that are listed."""


def labels(view: EvaluationResult) -> Row:
    """Return the counts of each retriever, failures with their reasons, and what to look at."""
    columns = [*accounting_columns()]
    accounting = Sheet("Query accounting", columns, view.at_cutoff, name="accounting")
    sheet, notes = accounting if view.at_cutoff else None, [*_notes(view), *_findings(view)]
    return {"sheet": sheet, "failures": [*_failures(view)], "notes": notes}


def _failures(view: EvaluationResult) -> Iterator[Row]:
    runs = {name: view.run_keys(name) for name in view.retrievers or view.run_retrievers}
    keys = {name: cells[max(cells)] for name, cells in runs.items() if cells}
    keys |= {cell.partition["answerer"]: cell.key for cell in view.evaluation.entries_of("answers")}
    for name, key in keys.items():
        if reasons := sorted(view.failures(key).items()):
            yield {"name": name, "n": len(reasons), "queries": reasons[:MAX_FAILED]}


def _notes(view: EvaluationResult) -> Iterator[str]:
    """Yield what readers of the sources found odd, and prompts that nobody named, of models."""
    yield from view.evaluation.remarks
    if (authors := authors_note(view.queries)) is not None:
        yield authors
    asked = ("generated_questions", "index_texts")
    of_people = ("qrels", "query_facts", "sampled_labels")
    for asset in ("documents", *asked, "queries", *of_people):
        for _, manifest in view.manifests_of(asset):
            yield from manifest.facts.get("notes", [])
    for entry, manifest in view.manifests_of("embedding_index"):
        if prompts := manifest.facts.get("prompts"):
            yield f"{entry.partition['retriever']}: {prompts}"


def _findings(view: EvaluationResult) -> list[str]:
    advice = pooling_advice(view)
    findings = [advice] if advice is not None else []
    if not view.has_metrics:
        return findings
    qrels, queries = view.table_of("qrels"), view.table_of("queries")
    if undeclared := len(queries_without_relevant(qrels, queries)):
        findings.append(
            f"{undeclared} queries have no relevant judgment; give those that no document "
            "answers the tag `unanswerable`"
        )
    if view.ranked:
        compared = EvaluationPair.within(view, Retrieval(view.primary))
        findings += [note.removeprefix("note: ") for note in compared.notes]
    return findings


def label_status(
    experiment: Experiment,
    sample: LabelSample,
    lines: Sequence[LoggedJudgment],
    depth: int,
    clusters: Sequence[str] | None,
) -> Row:
    """Return what the labels of a sample say so far, for programs and :func:`status_sheets`.

    Args:
        experiment: whose metric is decided.
        sample: the pool with its labels.
        lines: of the log, for the pace.
        depth: of the pool.
        clusters: one name a question; None: each is its own.

    Returns:
        ``n_items``, ``n_judged``, ``n_missing``, ``n_certain`` (passages of the pool; drawn and
        judged; drawn and without a grade; with a label of the dataset), ``n_questions``, ``level``
        of each interval, ``notes``, ``question_marks`` (mark -> questions), ``sources`` (source ->
        passages, none of a question that is left out), ``estimates`` of all metrics, and what
        :func:`~rag_assets.labels.sampling.sample_stage.sample_status` has of the one that decides.
    """
    level = experiment.statistics.confidence
    counted, judged = sample.pool.counted, sample.judged
    first, *rest = sampled_metrics(experiment.primary, depth)
    now = sample_status(sample, first, lines, clusters, level)
    notes = [*_status_notes(experiment, clusters), *_outside(now["differences"])]
    notes += part_notes(sample.pool, lines)
    marks = read_marks(experiment.question_marks_file)
    if estimates := list(now["estimates"]):
        estimates += [row for name in rest for row in estimate_rows(sample, name, clusters, level)]
        notes.append(PRICE)
    return {
        **{"n_items": int(counted.sum()), "n_judged": int(judged.sum())},
        "n_missing": int((sample.asked & ~judged & counted).sum()),
        "n_certain": int((sample.certain & counted).sum()),
        **{"n_questions": len(sample.pool.question_ids), "level": level, "notes": notes},
        "question_marks": mark_counts(marks),
        "sources": source_counts(lines, left_out(marks)),
        **{**now, "estimates": estimates},
        "targets": {"items": ITEMS, "questions": QUESTIONS},
    }


def _status_notes(experiment: Experiment, clusters: Sequence[str] | None) -> Iterator[str]:
    if experiment.primary.measure not in LINEAR:
        yield (
            f"{experiment.primary} is not a sum over passages, so a sample of passages "
            "cannot estimate it; set `primary` to dcg@k or precision@k"
        )
    if experiment.config.split is not None:
        yield "questions of dev and test count together"
    if experiment.weight is not None:
        yield f"every question counts equally; {experiment.weight!r} is not read"
    if experiment.statistics.cluster != "none" and clusters is None:
        yield f"{QUESTIONS}: each is treated as independent, because clusters need labels"


def _outside(differences: Iterable[Row]) -> Iterator[str]:
    if pairs := [row for row in differences if row["outside"]]:
        names = ", ".join(f"{row['retriever_a']} - {row['retriever_b']}" for row in pairs)
        yield (
            f"the estimate lies outside the interval from earlier checks: {names}; one of the "
            "two is wrong, as happens for about one pair in a hundred; more judgments will show "
            "which"
        )


def status_sheets(experiment: str, status: Row) -> list[Sheet]:
    """Return the tables of a :func:`label_status`."""
    heads = [
        f"{experiment}: {status['n_judged']} of {status['n_items']} passages judged, "
        f"{status['n_missing']} shown without a grade, {status['n_certain']} labelled before; "
        f"{status['n_questions']} questions"
    ]
    if marks := status["question_marks"]:
        n_out = sum(marks.get(mark, 0) for mark in LEFT_OUT)
        heads.append(f"questions: {mark_counts_text(marks)}; {n_out} left out of evaluations")
    if status["sources"].keys() - {PERSON}:
        heads.append(f"by source: {mark_counts_text(status['sources'])}")
    notes = [f"note: {note}" for note in status["notes"]]
    estimates = [{**row, "confidence": status["level"]} for row in status["estimates"]]
    if not estimates:
        nothing = "nothing is estimated yet: no passage of the sample is judged"
        return [Sheet("", (), (), notes=[*heads, nothing, *notes])]
    of_metric = grouped(estimates, "metric").items()
    sheets = [estimates_sheet(f"estimated {name}", rows) for name, rows in of_metric]
    sheets += [_differences_sheet(status)] if status["differences"] else []
    last = replace(sheets[-1], notes=[*sheets[-1].notes, *notes])
    return [Sheet("", (), (), notes=heads), *sheets[:-1], last]


def _differences_sheet(status: Row) -> Sheet:
    ranges = {"more_judgments": "more\njudgments", "more_minutes": "minutes"}
    rows = [
        {
            **row,
            "state": "yes" if row["decided"] else "no",
            **{name: _range(row, name) for name in ranges if row["more_judgments_high"]},
        }
        for row in status["differences"]
    ]
    columns = (
        Column("retriever_a", "a", TEXT),
        Column("retriever_b", "b", TEXT),
        Column("value", "a - b", SIGNED, bounds=("low", "high"), interval="interval"),
        Column("state", "decided", "s"),
        *(Column(name, title, "s") for name, title in ranges.items()),
    )
    n_decided = sum(bool(row["decided"]) for row in rows)
    note = f"{n_decided} of {len(rows)} differences are decided"
    if n_decided < len(rows) and status["more_judgments_high"]:
        time = _range(status, "more_minutes")
        pace = "" if time is None else f" ({time} minutes at the pace so far)"
        more = _range(status, "more_judgments") or "-"
        note += f"; the rest need about {more} more judgments{pace}"
    title = (
        f"differences of {rows[0]['metric']} on {ITEMS}, {status['level']:.0%} however often "
        "you look"
    )
    return Sheet(title, columns, rows, notes=[note])


def _range(row: Row, name: str) -> str | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return None
    return str(low) if low == high else f"{low} to {high}"
