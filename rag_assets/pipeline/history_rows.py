"""The row of the history that an evaluation gives: from its snapshot and the artifacts it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rag_assets.pipeline.evaluations import manifest_of, table_of
from rag_assets.schemas import HISTORY, LEADERBOARD, SCHEMA_VERSION
from rag_assets.store.artifacts import Manifest
from rag_assets.store.canonical import canonical_json, fingerprint

if TYPE_CHECKING:
    from rag_assets.pipeline.evaluations import Evaluation

Row = dict[str, Any]

_DIGESTS = {
    "corpus_digest": "documents",
    "chunks_digest": "chunks",
    "queries_digest": "queries",
    "query_sets_digest": "query_sets",
    "qrels_digest": "qrels",
}
"""Column -> the asset whose content it is the digest of."""


def history_table(root: Path, evaluations: Iterable[Evaluation]) -> pa.Table:
    """Return a row of :data:`rag_assets.schemas.HISTORY` for each evaluation.

    Args:
        root: the experiment's folder in the store.
        evaluations: their snapshots. An artifact that is gone leaves out what only it knew.

    Raises:
        StoreError: an artifact is damaged.
    """
    rows = [_row(root, evaluation) for evaluation in evaluations]
    return HISTORY.check(pa.Table.from_pylist(rows, schema=HISTORY.arrow()))


def _row(root: Path, evaluation: Evaluation) -> Row:
    origin = evaluation.origin
    return {
        "experiment": evaluation.experiment,
        "evaluation_id": evaluation.evaluation_id,
        "started": datetime.fromisoformat(evaluation.started),
        "finished": datetime.fromisoformat(evaluation.finished),
        "trigger": evaluation.trigger,
        "user": origin.user,
        "dagster_runs": list(evaluation.dagster_runs),
        "complete": evaluation.complete,
        "computed": evaluation.computed,
        "n_artifacts": len(evaluation.entries),
        "primary_metric": evaluation.primary,
        "baseline": evaluation.baseline,
        "content_digest": evaluation.content,
        "experiment_digest": origin.experiment_digest,
        **{column: _digest(evaluation, asset) for column, asset in _DIGESTS.items()},
        "git_commit": origin.git_commit,
        "git_dirty": origin.git_dirty,
        "configuration": canonical_json(origin.configuration),
        "code_versions": canonical_json(origin.code_versions),
        "packages": canonical_json(origin.packages),
        "retrievers": list(_retrievers(root, evaluation)),
        "metrics": list(_metrics(root, evaluation)),
        "schema_version": SCHEMA_VERSION,
    }


def _digest(evaluation: Evaluation, asset: str) -> str | None:
    """Return the digest of an asset; of all its partitions, where there are several."""
    entries = evaluation.entries_of(asset)
    if len(entries) == 1:
        return entries[0].digest
    return fingerprint({str(e.key): e.digest for e in entries}) if entries else None


def _retrievers(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    configurations = evaluation.origin.configuration.get("retrievers", {})
    for name, manifests in _manifests(root, evaluation).items():
        options = configurations.get(name, {})
        versions: dict[str, str] = {}
        for manifest in manifests:
            versions |= manifest.versions
        yield {
            "retriever": name,
            "type": options.get("type"),
            "configuration": canonical_json(options),
            "model": options.get("model"),
            "model_revision": _revision(manifests),
            "versions": canonical_json(versions),
        }


def _manifests(root: Path, evaluation: Evaluation) -> Mapping[str, list[Manifest]]:
    """Return retriever -> a manifest of each of its assets: its cells differ in top_k alone."""
    found: dict[str, dict[str, Manifest]] = {}
    for entry in evaluation.entries:
        name = entry.partition.get("retriever")
        if name is None or entry.asset in found.setdefault(name, {}):
            continue
        manifest = manifest_of(root, evaluation, entry)
        if manifest is not None:
            found[name][entry.asset] = manifest
    return {name: list(of_asset.values()) for name, of_asset in found.items()}


def _revision(manifests: Iterable[Manifest]) -> str | None:
    for manifest in manifests:
        revision = manifest.config.get("weights_sha256")
        if revision is not None:
            return str(revision)
    return None


def _metrics(root: Path, evaluation: Evaluation) -> Iterator[Row]:
    declared = set(LEADERBOARD.arrow().names)
    for entry in evaluation.entries_of("leaderboard"):
        if not (root.parent / entry.path).exists():
            continue
        board = table_of(root, evaluation, entry)
        names = [name for name in board.column_names if name not in declared]
        for row in board.to_pylist():
            cell = {name: row.get(name, "all") for name in ("retriever", "split", "top_k")}
            for name in names:
                if row[name] is not None:
                    yield {
                        **cell,
                        "metric": name,
                        "value": row[name],
                        "n_queries": row["n_queries"],
                    }
