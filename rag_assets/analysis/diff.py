"""What differs between two evaluations, and why: what was changed, and which answers.

An answer is made from a question, a context and a generator. Which of them differ is known exactly:
texts are compared with texts, and what a generator is, down to the bytes of its files, stands in
the manifests. Where none of them differs, a server answered the same request otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rag_assets.analysis.comparability import has_documents, question_texts
from rag_assets.analysis.comparisons import difference_columns
from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.history import answers_changed, changed_artifacts, setting_changes
from rag_assets.analysis.pair_details import answer_text
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.answers.contexts_stage import answer_contexts_key, units_by_query
from rag_assets.answers.stage import answers_key
from rag_assets.pipeline.evaluations import Evaluation
from rag_assets.pipeline.history import history_table
from rag_assets.pipeline.reasons import Reason, changes, row_changes
from rag_assets.pipeline.stages import STAGES
from rag_assets.pipeline.stored_evaluation import pairs_of
from rag_assets.sheets.sheet import SIGNED, TEXT, Column, Sheet
from rag_assets.store.artifacts import Manifest

_SOURCES = ("documents", "queries", "qrels")


def changes_between(a: EvaluationResult, b: EvaluationResult) -> list[Reason]:
    """Return what was changed from ``a`` to ``b``: sources, configuration, code and packages.

    And who answered otherwise when asked the same again. What only follows is not among them.
    """
    sources = [reason for asset in _SOURCES for reason in _source_changes(a, b, asset)]
    old, new = history_table(b.root, [a.evaluation, b.evaluation]).to_pylist()
    others = (*setting_changes(old, new), *_engine_changes(a, b), *answers_changed(a, b))
    return list(dict.fromkeys([*sources, *others]))


def _source_changes(a: EvaluationResult, b: EvaluationResult, asset: str) -> Iterable[Reason]:
    entries = [result.evaluation.entries_of(asset) for result in (a, b)]
    if not all(entries):
        if any(entries):
            yield Reason(f"{asset} {'added' if entries[1] else 'removed'}")
        return
    (old, *_), (new, *_) = entries
    if old.digest == new.digest:
        return
    schema = STAGES[asset].schema
    if schema is None or a.manifest_of(old) is None or b.manifest_of(new) is None:
        yield Reason(f"{asset} changed")
    else:
        yield from row_changes(asset, a.table_of(asset), b.table_of(asset), schema.key)


def _engine_changes(a: EvaluationResult, b: EvaluationResult) -> Iterator[Reason]:
    """Yield what differs in engines, types and models; files that options name are named above."""
    for _, old, new in changed_artifacts(a, b):
        versions = [
            {name: text for name, text in m.versions.items() if not name.startswith("file.")}
            for m in (old, new)
        ]
        yield from changes(*versions)
        if old.config.get("model_sha256") != new.config.get("model_sha256"):
            yield Reason("files of the model changed")


MAX_REASONS = 20
"""Reasons that people are shown; ``--format json`` has all."""


def changes_sheet(a: Evaluation, b: Evaluation, reasons: Sequence[Reason]) -> Sheet:
    """Return what changed from one evaluation to the other, a line a reason."""
    lines = [f"  {reason.text}" for reason in reasons[:MAX_REASONS]] or ["  nothing changed"]
    more = len(reasons) - MAX_REASONS
    lines += [f"  and {more} more; --format json lists all"] if more > 0 else []
    title = f"{b.experiment}: {b.evaluation_id} against {a.evaluation_id}"
    return Sheet(title, (), (), notes=lines)


def means_sheet(pair: EvaluationPair, rows: Sequence[Row], names: Collection[str] = ()) -> Sheet:
    """Return a row a retriever: the mean before and after, how sure the change is, who failed."""
    failures = [text for name, text in _failures(pair) if not names or name in names]
    columns = (
        Column("retriever", pair.source.subject, TEXT),
        Column("old", "old"),
        Column("new", "new"),
        *difference_columns(pair.resampling.confidence),
    )
    if not rows:
        lacking = f"no {pair.source.subject} has {pair.metric} in both evaluations; --metric names"
        return Sheet("", (), (), notes=[f"{lacking} another one", *failures])
    n_queries = max(row["n"] for row in rows)
    return Sheet(f"{pair.metric} on {n_queries} queries", columns, rows, notes=failures)


def _failures(pair: EvaluationPair) -> Iterator[tuple[str, str]]:
    """Yield retrievers of both that failed on compared queries, and a note on each."""
    ids = {row["query_id"] for row in pair.counting}
    for which, cells in (("older", pair.old_cells), ("newer", pair.new_cells)):
        for name in () if pair.source.is_of_answers else cells:
            failed = pairs_of(cells[name], "query_id", "failed")
            n_failed = sum(failed.get(query, False) for query in ids)
            if n_failed and name in pair.old_cells and name in pair.new_cells:
                on = f"{n_failed} of {len(ids)} queries in the {which} evaluation"
                yield name, f"{name} failed on {on}, which count in no mean"


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
    was, now = manifests = a.manifest(key), b.manifest(key)
    if was is not None and now is not None and was.fingerprint == now.fingerprint:
        return []
    old, new = (_by_question(result, answerer) for result in (a, b))
    changed = [q for q in new if q in old and old[q]["answer"] != new[q]["answer"]]
    if not changed:
        return []
    generator = ["generator"] if _generator(was) != _generator(now) else []
    reads = any(manifest is not None and "contexts" in manifest.inputs for manifest in manifests)
    quoted = has_documents(a) and has_documents(b)
    contexts = [_contexts(result, answerer, quoted=quoted) if reads else {} for result in (a, b)]
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
    notes += [f"and {more} more; --format json lists all"] if more > 0 else []
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
