"""Query accounting and label health: how many queries each number is over, and what is unsure."""

from __future__ import annotations

from rag_assets.labels.health.unanswerable import queries_without_relevant
from rag_assets.report.analyzer_advice import likely_cause, unlabelled_findings
from rag_assets.report.comparisons import Compared
from rag_assets.report.page.view import Context, View
from rag_assets.report.pooling_advice import pooling_advice

SHOWN = 20
"""Failed queries of one retriever that are listed."""

COUNTS = {
    "n_attempted": "queries",
    "n_answered": "with results",
    "n_empty": "empty",
    "n_failed": "failed",
    "n_unanswerable": "unanswerable",
    "n_queries": "averaged",
}


def labels(view: View) -> Context:
    """Return the counts of each retriever, failures with their reasons, and what to look at."""
    return {
        "counts": list(COUNTS.values()),
        "rows": [
            {
                "retriever": row["retriever"],
                "counts": [row[name] for name in COUNTS],
                "n_unreachable": row["n_unreachable"],
                "n_not_in_corpus": row.get("n_not_in_corpus"),
                "n_tied": row.get("n_tied"),
                "n_unjudged": row["n_unjudged"],
                "judged": row.get("judged"),
            }
            for row in view.at_cutoff
        ],
        "failures": _failures(view),
        "notes": [*_notes(view), *_findings(view)],
        "shown": SHOWN,
    }


def _failures(view: View) -> list[Context]:
    found = []
    for name in view.retrievers or view.result.run_retrievers:
        keys = view.result.run_keys(name)
        reasons = view.result.failures(keys[max(keys)]) if keys else {}
        if reasons:
            shown = [{"query": q, "reason": why} for q, why in sorted(reasons.items())[:SHOWN]]
            found.append({"retriever": name, "n": len(reasons), "queries": shown})
    return found


def _notes(view: View) -> list[str]:
    """Return what the readers of the sources found odd."""
    notes: list[str] = []
    for asset in ("documents", "queries", "qrels", "query_facts"):
        for entry in view.result.evaluation.entries_of(asset):
            manifest = view.result.manifest_of(entry)
            notes += manifest.facts.get("notes", []) if manifest is not None else []
    return notes


def _findings(view: View) -> list[str]:
    advice = pooling_advice(view.result)
    found = [advice] if advice is not None else []
    if not view.result.has_metrics:
        return found + unlabelled_findings(view.result)
    for row in view.at_cutoff:
        name, n_empty = str(row["retriever"]), int(str(row["n_empty"]))
        cause = likely_cause(view.result, name, n_empty, int(str(row["n_attempted"])))
        found += [f"{name}: nothing retrieved for {n_empty} queries{cause}"] if cause else []
    qrels, queries = view.result.table_of("qrels"), view.result.table_of("queries")
    undeclared = len(queries_without_relevant(qrels, queries))
    if undeclared:
        found.append(
            f"{undeclared} queries without a relevant judgment do not say that they are "
            "unanswerable (tag `unanswerable`)"
        )
    if view.ranked:
        compared = Compared.of(view.result, split=view.split)
        found += [note.removeprefix("note: ") for note in compared.notes]
    return found
