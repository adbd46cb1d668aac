"""Whether labels and queries are sound: findings, query accounting, and when to judge more.

The sheet of findings is that of `validate`; the section of the page says how many queries each
number is over, what failed, and what is unsure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rag_assets import schemas
from rag_assets.labels.generation.question_tables import authors_note
from rag_assets.labels.health.unusable_labels import queries_without_relevant
from rag_assets.report.comparisons import Compared
from rag_assets.report.findings import likely_cause, unlabelled_findings
from rag_assets.report.leaderboard import LEADING, MEANINGS
from rag_assets.report.result import EvaluationResult, Row
from rag_assets.report.sheet import TEXT, Column, Sheet
from rag_assets.report.view import Context, View

FINDING_STYLES = {"error": "bold red", "warning": "yellow"}
"""Severity of a finding -> how a terminal draws it."""


def findings_sheet(findings: Sequence[Row], shown: int) -> Sheet:
    """Return of each kind the first ``shown`` findings, and how many more there are."""
    kinds: dict[object, list[Row]] = defaultdict(list)
    for row in findings:
        kinds[row["check"]].append(row)
    lines: list[Row] = []
    for check, rows in kinds.items():
        lines += [{**row, "finding": f"{_where(row)}{row['message']}"} for row in rows[:shown]]
        if len(rows) > shown:
            more = f"... and {len(rows) - shown} more; --format csv lists all"
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
    shares = {
        row["retriever"]: row["judged"]
        for row in result.leaderboard.to_pylist()
        if row["top_k"] == result.primary.cutoff
        and row["split"] == result.chosen_split()
        and row["judged"] is not None
    }
    if not shares or min(shares.values()) >= ENOUGH_JUDGED:
        return None
    name = min(shares, key=lambda retriever: shares[retriever])
    return (
        f"only {shares[name]:.0%} of what {name} retrieved at top_k {result.primary.cutoff} is "
        "judged, the rest counts as not relevant; pooling would help"
    )


_COUNTS = {
    "n_attempted": "queries",
    "n_answered": "with results",
    "n_empty": "empty",
    "n_failed": "failed",
    "n_unanswerable": "unanswerable",
    "n_unlabelled": "without labels",
    "n_queries": "averaged",
    "n_unreachable": "unreachable evidences",
    "n_not_in_corpus": "not in corpus",
    "n_unjudged": "unjudged results",
    "judged": "judged",
    "n_tied": "tied at the cut",
}
"""Stored column -> its heading in the query accounting; others stand behind them."""

_ELSEWHERE = {*LEADING, "tokens", "weight"}


def accounting_columns(
    stored: Iterable[schemas.Column] = schemas.LEADERBOARD.columns,
) -> Iterator[Column]:
    """Yield the columns that say what the means are over: all stored ones without a place."""
    yield Column("retriever", "retriever", TEXT, help=MEANINGS["retriever"])
    columns = {column.name: column for column in stored if column.name not in _ELSEWHERE}
    for name in (*_COUNTS, *(name for name in columns if name not in _COUNTS)):
        is_mean = columns[name].type in ("double", "float")
        form = ".0%" if name == "judged" else ".4f" if is_mean else "d"
        title = _COUNTS.get(name, name.removeprefix("n_").replace("_", " "))
        yield Column(name, title, form, help=columns[name].meaning)


MAX_FAILED = 20
"""Failed queries of one retriever that are listed."""


def labels(view: View) -> Context:
    """Return the counts of each retriever, failures with their reasons, and what to look at."""
    accounting = Sheet(
        "Query accounting", [*accounting_columns()], view.at_cutoff, name="accounting"
    )
    return {
        "sheet": accounting if view.at_cutoff else None,
        "failures": [*_failures(view)],
        "notes": [*_notes(view), *_prompts(view), *_findings(view)],
    }


def _failures(view: View) -> Iterator[Context]:
    for name in view.retrievers or view.result.run_retrievers:
        keys = view.result.run_keys(name)
        reasons = view.result.failures(keys[max(keys)]) if keys else {}
        if reasons:
            yield {
                "retriever": name,
                "n": len(reasons),
                "queries": sorted(reasons.items())[:MAX_FAILED],
            }


def _notes(view: View) -> list[str]:
    """Return what the readers of the sources found odd."""
    authors = authors_note(view.result.queries)
    notes = [*view.result.evaluation.remarks, *([authors] if authors is not None else [])]
    for asset in ("documents", "generated_questions", "queries", "qrels", "query_facts"):
        for _, manifest in view.result.manifests_of(asset):
            notes += manifest.facts.get("notes", [])
    return notes


def _prompts(view: View) -> list[str]:
    """Return which prompts the embedding models had that the experiment does not name."""
    return [
        f"{entry.partition['retriever']}: {prompts}"
        for entry, manifest in view.result.manifests_of("embedding_index")
        if (prompts := manifest.facts.get("prompts"))
    ]


def _findings(view: View) -> list[str]:
    advice = pooling_advice(view.result)
    findings = [advice] if advice is not None else []
    if not view.result.has_metrics:
        return findings + unlabelled_findings(view.result)
    for row in view.at_cutoff:
        name, n_empty = row["retriever"], row["n_empty"]
        cause = likely_cause(view.result, name, n_empty, row["n_attempted"])
        findings += [f"{name}: nothing retrieved for {n_empty} queries{cause}"] if cause else []
    qrels, queries = view.result.table_of("qrels"), view.result.table_of("queries")
    undeclared = len(queries_without_relevant(qrels, queries))
    if undeclared:
        findings.append(
            f"{undeclared} queries have no relevant judgment; those that no document answers want "
            "the tag `unanswerable`"
        )
    if view.ranked:
        compared = Compared.of(view.result, split=view.split)
        findings += [note.removeprefix("note: ") for note in compared.notes]
    return findings
