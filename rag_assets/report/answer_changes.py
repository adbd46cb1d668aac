"""The answers that differ between two evaluations, and what changed them.

An answer is made from a question, a context and a generator. Which of them differ is known exactly:
texts are compared with texts, and what a generator is, down to the bytes of its files, stands in
the manifests. Where none of them differs, a server answered the same request otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_assets.answers.contexts_stage import answer_contexts_key, units_by_query
from rag_assets.answers.stage import answers_key
from rag_assets.report.evaluation_pairs import has_documents, question_texts
from rag_assets.report.query_changes import answer_text
from rag_assets.report.result import EvaluationResult, pairs_of
from rag_assets.report.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.store.artifacts import Manifest

Row = dict[str, Any]

COMPARED = ("answer_em", "answer_f1")

MAX_ROWS = 10
"""Changed answers that people are shown; ``--format json`` has all."""


def answer_changes(
    a: EvaluationResult, b: EvaluationResult, answerers: Collection[str] = ()
) -> list[Row]:
    """Return a row for each answer that differs, of the answerers that both evaluations have.

    Args:
        a: the older evaluation.
        b: the newer one.
        answerers: only these, as ``plain@5``; all when empty.

    Returns:
        ``answerer``, ``query_id``, ``old`` and ``new`` (None: failed), ``answer_em_change`` and
        ``answer_f1_change`` (None: not defined in both), and ``cause``: ``question``, ``context``
        and ``generator``, those of them that differ, joined by "and"; else ``model``, where the
        server names another one, or ``asked again``. The largest change of F1 comes first.
    """
    rows = [
        row
        for name in b.answer_metrics
        if name in a.answer_metrics and (not answerers or name in answerers)
        for row in _changes(a, b, name)
    ]
    return sorted(rows, key=lambda row: -abs(row["answer_f1_change"] or 0.0))


def _changes(a: EvaluationResult, b: EvaluationResult, answerer: str) -> list[Row]:
    key = answers_key(answerer)
    if {one.fingerprint for one in a.evaluation.entries_of(key.asset) if one.key == key} == {
        one.fingerprint for one in b.evaluation.entries_of(key.asset) if one.key == key
    }:
        return []
    old, new = (_by_question(result, answerer) for result in (a, b))
    changed = [q for q in new if q in old and old[q]["answer"] != new[q]["answer"]]
    if not changed:
        return []
    manifests = a.manifest(key), b.manifest(key)
    generator = ["generator"] if _generator(manifests[0]) != _generator(manifests[1]) else []
    reads = any(one is not None and "contexts" in one.inputs for one in manifests)
    quoted = has_documents(a) and has_documents(b)
    contexts = [_contexts(one, answerer, quoted=quoted) if reads else {} for one in (a, b)]
    questions = question_texts(a), question_texts(b)
    rows = []
    for query in changed:
        causes = ["question"] if questions[0].get(query) != questions[1].get(query) else []
        causes += ["context"] if contexts[0].get(query) != contexts[1].get(query) else []
        causes += generator
        if not causes:
            same_model = old[query]["served_model"] == new[query]["served_model"]
            causes = ["asked again" if same_model else "model"]
        row: Row = {"answerer": answerer, "query_id": query}
        row |= {"old": old[query]["answer"], "new": new[query]["answer"]}
        row |= {f"{name}_change": _change(name, old[query], new[query]) for name in COMPARED}
        rows.append({**row, "cause": " and ".join(causes)})
    return rows


def _by_question(result: EvaluationResult, answerer: str) -> dict[str, Row]:
    """Return question -> its answer, the model that wrote it, and the metrics."""
    answers = result.table(answers_key(answerer)).select(["query_id", "answer", "served_model"])
    rows: dict[str, Row] = {row["query_id"]: row for row in answers.to_pylist()}
    for row in result.answer_metrics[answerer].to_pylist():
        rows[row["query_id"]] |= {name: row.get(name) for name in COMPARED}
    return rows


def _change(name: str, old: Row, new: Row) -> float | None:
    before, after = old.get(name), new.get(name)
    return None if before is None or after is None else after - before


def _generator(manifest: Manifest | None) -> object:
    """Return all that an answer depends on beside its question and its context."""
    if manifest is None:
        return None
    config = {name: value for name, value in manifest.config.items() if name != "failed"}
    return config, manifest.versions, manifest.code_version, manifest.inputs.get("reader")


def _contexts(
    result: EvaluationResult, answerer: str, *, quoted: bool
) -> Mapping[str, Sequence[object]]:
    """Return question -> the texts of its context in order; their places where not ``quoted``."""
    units = units_by_query(result.table(answer_contexts_key(answerer)))
    texts = pairs_of(result.table_of("documents"), "document_id", "text") if quoted else {}
    return {
        query: [
            texts[unit["document_id"]][unit["start"] : unit["end"]]
            if quoted
            else (unit["document_id"], unit["start"], unit["end"])
            for unit in of_query
        ]
        for query, of_query in units.items()
    }


def answer_changes_sheet(rows: Sequence[Row]) -> Sheet:
    """Return how many answers changed and why, and a row for each of those that changed most."""
    if not rows:
        return Sheet("no answer changed", (), ())
    causes = Counter((row["answerer"], row["cause"]) for row in rows)
    notes = ["; ".join(f"{name}: {n} by {cause}" for (name, cause), n in causes.items())]
    more = len(rows) - MAX_ROWS
    notes += [f"and {more} more; --format json has all"] if more > 0 else []
    columns = (
        Column("answerer", "answerer", TEXT),
        Column("query_id", "question", TEXT),
        Column("old", "old", TEXT, min_width=8),
        Column("new", "new", TEXT, min_width=8),
        Column("answer_f1_change", "F1", SIGNED),
        Column("cause", "cause", TEXT, min_width=9),
    )
    lines = [
        {**row, **{name: answer_text(row[name]) for name in ("old", "new")}}
        for row in rows[:MAX_ROWS]
    ]
    return Sheet(f"{len(rows)} answers changed", columns, lines, notes=notes)
