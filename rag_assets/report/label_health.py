"""Whether labels and queries are sound: findings, query accounting, and when to judge more.

The table of findings is that of `validate`; the section of the page says how many queries each
number is over, what failed, and what is unsure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from rag_assets.labels.generation.question_tables import authors_note
from rag_assets.labels.health.unusable_labels import queries_without_relevant
from rag_assets.report.analyzers import likely_cause, unlabelled_findings
from rag_assets.report.board_columns import ACCOUNTING, RETRIEVER, columns_of
from rag_assets.report.comparisons import Compared
from rag_assets.report.formats import Row
from rag_assets.report.result import EvaluationResult
from rag_assets.report.terminal_table import FittedTable, plain_cell
from rag_assets.report.view import Context, View

_STYLES = {"error": "bold red", "warning": "yellow"}


def findings_view(findings: Sequence[Row], shown: int) -> RenderableType:
    """Return one table; of each kind the first ``shown`` findings, and how many more there are.

    Args:
        findings: rows of :data:`rag_assets.labels.health.findings.FINDINGS`.
        shown: how many of one kind are drawn.
    """
    table = FittedTable()
    table.add_column("severity", no_wrap=True)
    table.text_column("check")
    table.text_column("finding")
    kinds: dict[object, list[Row]] = defaultdict(list)
    for row in findings:
        kinds[row["check"]].append(row)
    for rows in kinds.values():
        for row in rows[:shown]:
            severity = str(row["severity"])
            cells = [plain_cell(text) for text in (row["check"], f"{_where(row)}{row['message']}")]
            table.add_row(Text(severity, style=_STYLES.get(severity, "")), *cells)
        if len(rows) > shown:
            more = f"... and {len(rows) - shown} more; --format csv lists all"
            table.add_row("", plain_cell(rows[0]["check"]), Text(more))
    return Group(table, "")


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


SHOWN = 20
"""Failed queries of one retriever that are listed."""


def labels(view: View) -> Context:
    """Return the counts of each retriever, failures with their reasons, and what to look at."""
    return {
        "retriever": RETRIEVER,
        "columns": columns_of(ACCOUNTING, view.at_cutoff),
        "rows": view.at_cutoff,
        "failures": _failures(view),
        "notes": [*_notes(view), *_prompts(view), *_findings(view)],
        "shown": SHOWN,
    }


def _failures(view: View) -> list[Context]:
    failures = []
    for name in view.retrievers or view.result.run_retrievers:
        keys = view.result.run_keys(name)
        reasons = view.result.failures(keys[max(keys)]) if keys else {}
        if reasons:
            shown = [{"query": q, "reason": why} for q, why in sorted(reasons.items())[:SHOWN]]
            failures.append({"retriever": name, "n": len(reasons), "queries": shown})
    return failures


def _notes(view: View) -> list[str]:
    """Return what the readers of the sources found odd."""
    authors = authors_note(view.result.queries)
    notes = [*view.result.evaluation.remarks, *([authors] if authors is not None else [])]
    for asset in ("documents", "generated_questions", "queries", "qrels", "query_facts"):
        for entry in view.result.evaluation.entries_of(asset):
            manifest = view.result.manifest_of(entry)
            notes += manifest.facts.get("notes", []) if manifest is not None else []
    return notes


def _prompts(view: View) -> list[str]:
    """Return which prompts the embedding models had that the experiment does not name."""
    told = []
    for entry in view.result.evaluation.entries_of("embedding_index"):
        manifest = view.result.manifest_of(entry)
        prompts = manifest.facts.get("prompts") if manifest is not None else None
        told += [f"{entry.partition['retriever']}: {prompts}"] if prompts else []
    return told


def _findings(view: View) -> list[str]:
    advice = pooling_advice(view.result)
    findings = [advice] if advice is not None else []
    if not view.result.has_metrics:
        return findings + unlabelled_findings(view.result)
    for row in view.at_cutoff:
        name, n_empty = str(row["retriever"]), int(str(row["n_empty"]))
        cause = likely_cause(view.result, name, n_empty, int(str(row["n_attempted"])))
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
