"""What differs between two evaluations, and why: by the reasons of a plan, and as sheets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rag_assets.engine.recipe import Recipe
from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry
from rag_assets.pipeline.history import history_table
from rag_assets.pipeline.reasons import FILE, Reason, Wanted, row_changes, version_changes
from rag_assets.pipeline.stages import STAGES
from rag_assets.report.formats import interval_name
from rag_assets.report.history import (
    DIGESTS,
    LABELS_ADDED,
    LABELS_REMOVED,
    evaluation_changes,
)
from rag_assets.report.metric_choice import is_answerer
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.store.artifacts import ArtifactKey, Manifest

Row = dict[str, Any]

_SOURCES = ("documents", "queries", "qrels")


def changes_between(a: EvaluationResult, b: EvaluationResult) -> list[Reason]:
    """Return what was changed from ``a`` to ``b``: sources, configuration, code and packages.

    What only follows from these is not among them, see :func:`partition_changes`.
    """
    sources = [reason for asset in _SOURCES for reason in _source_changes(a, b, asset)]
    return list(dict.fromkeys([*sources, *setting_changes(a, b)]))


def setting_changes(a: EvaluationResult, b: EvaluationResult) -> list[Reason]:
    """Return what was changed from ``a`` to ``b`` but for the sources."""
    old, new = history_table(b.root, [a.evaluation, b.evaluation]).to_pylist()
    texts = {*DIGESTS.values(), LABELS_ADDED, LABELS_REMOVED}
    settings = [reason for reason in evaluation_changes(old, new) if reason.what not in texts]
    return list(dict.fromkeys([*settings, *_engine_changes(a, b)]))


def _source_changes(a: EvaluationResult, b: EvaluationResult, asset: str) -> Iterable[Reason]:
    entries = [one.evaluation.entries_of(asset) for one in (a, b)]
    if not all(entries):
        if any(entries):
            yield Reason(f"{asset} {'added' if entries[1] else 'removed'}")
        return
    if entries[0][0].digest == entries[1][0].digest:
        return
    schema = STAGES[asset].schema
    old, new = _manifest(a, entries[0][0]), _manifest(b, entries[1][0])
    if schema is None or old is None or new is None:
        yield Reason(f"{asset} changed")
    else:
        yield from row_changes(asset, a.table_of(asset), b.table_of(asset), schema.key)


def _engine_changes(a: EvaluationResult, b: EvaluationResult) -> Iterator[Reason]:
    """Yield what differs in engines, types and the contents of files that options name."""
    has_files = a.evaluation.origin.files and b.evaluation.origin.files
    for _, old, new in _changed(a, b):
        if old is not None and new is not None:
            for reason in version_changes(old.versions, new.versions):
                if not (has_files and reason.what.startswith(FILE)):  # said with its name
                    yield reason
            if old.config.get("model_sha256") != new.config.get("model_sha256"):
                yield Reason("files of the model changed")


def partition_changes(a: EvaluationResult, b: EvaluationResult) -> list[Row]:
    """Return a row for each partition that differs: asset, partition, what became of it, reasons.

    ``became`` is ``added``, ``removed``, ``changed``, or ``same content``: made otherwise, and
    equal; reasons are mappings of ``what``, ``old`` and ``new``.
    """
    digests = [{e.key: e.digest for e in one.evaluation.entries} for one in (a, b)]
    rows = []
    for key, old, new in _changed(a, b):
        if key not in digests[0] or key not in digests[1]:
            became, reasons = ("added" if key in digests[1] else "removed"), []
        else:
            became = "same content" if digests[0][key] == digests[1][key] else "changed"
            reasons = _reasons(old, new)
        rows.append(
            {
                "asset": key.asset,
                "partition": dict(key.partition),
                "became": became,
                "reasons": [asdict(reason) for reason in reasons],
            }
        )
    return rows


def _changed(
    a: EvaluationResult, b: EvaluationResult
) -> Iterator[tuple[ArtifactKey, Manifest | None, Manifest | None]]:
    """Yield key and manifests of each partition that is not one artifact in both."""
    old = {entry.key: entry for entry in a.evaluation.entries}
    new = {entry.key: entry for entry in b.evaluation.entries}
    for key in dict.fromkeys([*new, *old]):
        before, after = old.get(key), new.get(key)
        if before is None or after is None or before.fingerprint != after.fingerprint:
            yield key, _manifest(a, before), _manifest(b, after)


def _manifest(result: EvaluationResult, entry: SnapshotEntry | None) -> Manifest | None:
    return result.manifest_of(entry) if entry is not None else None


def _reasons(old: Manifest | None, new: Manifest | None) -> list[Reason]:
    if old is None or new is None:
        return [Reason("an artifact of it was cleaned away")]
    recipe = Recipe(new.asset, new.code_version, new.config, new.inputs, new.versions)
    return list(Wanted(recipe).differences(old))


MAX_REASONS = 20
"""Reasons that people are shown; ``--format json`` has all."""


def changes_sheet(a: Evaluation, b: Evaluation, reasons: Sequence[Reason]) -> Sheet:
    """Return what changed from one evaluation to the other, a line a reason."""
    lines = [f"  {reason.text}" for reason in reasons[:MAX_REASONS]] or ["  nothing changed"]
    more = len(reasons) - MAX_REASONS
    lines += [f"  and {more} more; --format json has all"] if more > 0 else []
    title = f"{b.experiment}: {b.evaluation_id} against {a.evaluation_id}"
    return Sheet(title, (), (), notes=lines)


def means_sheet(
    rows: Sequence[Row], metric: str, confidence: float, notes: Sequence[str] = ()
) -> Sheet:
    """Return a row a retriever: the mean before and after, and how sure the change is.

    Args:
        rows: of :meth:`.evaluation_pairs.EvaluationPair.rows`.
        metric: with its cut-off.
        confidence: of the intervals.
        notes: sentences below the table.
    """
    is_of_answers = any(is_answerer(row["retriever"]) for row in rows)
    columns = (
        Column("retriever", "answerer" if is_of_answers else "retriever", TEXT),
        Column("old", "old"),
        Column("new", "new"),
        Column(
            "difference",
            "difference",
            SIGNED,
            bounds=("low", "high"),
            interval=interval_name(confidence),
            is_required=True,
        ),
        Column("p_randomisation", "p", P_VALUE),
        Column("won", "won", "d"),
        Column("lost", "lost", "d"),
    )
    n_queries = max((row["n"] for row in rows), default=0)
    return Sheet(f"{metric} on {n_queries} queries", columns, rows, notes=notes)
