"""An evaluation and what it names, as everything reads it that shows one: nothing damaged.

Fingerprint, digest and bytes of an artifact are compared with those that the snapshot names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.engine.measurements import MEASUREMENTS, Measurement, Measurements
from rag_assets.errors import NotEvaluated, StoreError, UsageError, allowed_names
from rag_assets.pipeline.evaluations import Evaluation, SnapshotEntry, read_current
from rag_assets.schemas import TableSchema, column_values
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.artifacts import Artifact, ArtifactKey, Manifest, read_intact, read_manifest

Row = dict[str, Any]


class StoredEvaluation:
    """An evaluation, and its tables and manifests by partition or by asset."""

    def __init__(self, root: Path, evaluation: Evaluation) -> None:
        """Open an evaluation of the experiment in folder ``root`` of the store."""
        self.root = root
        self.evaluation = evaluation

    def lacks(self, problem: str) -> NotEvaluated:
        """Return the error that says what this evaluation has not: ``has no answers``."""
        return NotEvaluated(f"the last evaluation of {self.evaluation.experiment} {problem}")

    def configured(self, block: str) -> Mapping[str, Any]:
        """Return a block of the configuration that the evaluation was made with; maybe empty."""
        options: Mapping[str, Any] = self.evaluation.origin.configuration.get(block, {})
        return options

    def exists(self, entry: SnapshotEntry) -> bool:
        """Return whether the artifact of an entry is there, whole or not."""
        return (self.root.parent / entry.path).exists()

    def manifest_of(self, entry: SnapshotEntry) -> Manifest | None:
        """Return the manifest of an entry; None: the artifact is gone.

        Raises:
            StoreError: it is damaged, or another artifact lies there.
        """
        path = self.root.parent / entry.path
        manifest = read_manifest(path)
        if manifest is not None and _is_named(manifest, entry):
            return manifest
        if manifest is None and not path.exists():
            return None
        raise self._damaged(path)

    def file_of(self, entry: SnapshotEntry) -> Path:
        """Return the file of an entry's table; every byte of it was checked.

        Raises:
            StoreError: it is gone, or damaged, or another artifact lies there.
        """
        return self._intact(entry).file

    def content_of(self, entry: SnapshotEntry) -> pa.Table:
        """Return the table of an entry; errors as for :meth:`file_of`."""
        return self._intact(entry).table()

    def _intact(self, entry: SnapshotEntry) -> Artifact:
        path = self.root.parent / entry.path
        artifact = read_intact(path)
        if artifact is not None and _is_named(artifact.manifest, entry):
            return artifact
        if path.exists():
            raise self._damaged(path)
        lost = f"was removed after evaluation {self.evaluation.evaluation_id}"
        raise StoreError(f"{path}: {lost}; {self._remedy(path)}")

    def _damaged(self, path: Path) -> StoreError:
        written_by = f"what evaluation {self.evaluation.evaluation_id} wrote"
        return StoreError(f"{path}: is damaged, it is not {written_by}; {self._remedy(path)}")

    def _remedy(self, path: Path) -> str:
        """Return what to do without an artifact: only those of the current evaluation come back."""
        current = (self.root.parent / entry.path for entry in read_current(self.root).entries)
        if path in current:
            return f"to compute it again: rag-assets evaluate {shlex.quote(self.evaluation.source)}"
        return "compare with a newer evaluation, or pin one: `rag-assets anchor PATH`"

    def manifests_of(self, asset: str) -> Iterator[tuple[SnapshotEntry, Manifest]]:
        """Yield the partitions of an asset whose artifacts are still there."""
        for entry in self.evaluation.entries_of(asset):
            manifest = self.manifest_of(entry)
            if manifest is not None:
                yield entry, manifest

    def rows_of(self, asset: str) -> list[Row]:
        """Return the rows of all partitions of an asset, each with its partition; maybe none."""
        return [
            {**entry.partition, **row}
            for entry in self.evaluation.entries_of(asset)
            for row in self.content_of(entry).to_pylist()
        ]

    def table_of(self, asset: str) -> pa.Table:
        """Return the table of an asset, such as ``queries``, ``metrics`` or ``attributions``.

        Of several partitions it holds all rows, with ``retriever``, ``top_k`` ... in front.

        Raises:
            UsageError: the evaluation has no such asset.
        """
        entries = self.evaluation.entries_of(asset)
        if not entries:
            assets = dict.fromkeys(entry.asset for entry in self.evaluation.entries)
            raise UsageError(f"unknown asset {allowed_names(asset, assets)}")
        return concatenated((one.partition, self.content_of(one)) for one in entries)

    def table_or_empty(self, asset: str, schema: TableSchema) -> pa.Table:
        """Return the table of an asset of one partition, without rows where there is none."""
        entries = self.evaluation.entries_of(asset)
        return self.content_of(entries[0]) if entries else schema.empty()

    def has(self, key: ArtifactKey) -> bool:
        """Return whether the evaluation names a partition."""
        return self._entry(key) is not None

    def table(self, key: ArtifactKey) -> pa.Table:
        """Return the table of one partition, as the evaluation names it.

        Raises:
            NotEvaluated: it was not up to date when the evaluation ended.
        """
        entry = self._entry(key)
        if entry is None:
            raise self.lacks(f"has no {key}; evaluate it again")
        return self.content_of(entry)

    def manifest(self, key: ArtifactKey) -> Manifest | None:
        """Return the manifest of one partition; None where the evaluation does not name it."""
        entry = self._entry(key)
        return None if entry is None else self.manifest_of(entry)

    def path(self, key: ArtifactKey) -> Path | None:
        """Return the file of one partition, to read a part of it; None where there is none."""
        entry = self._entry(key)
        return None if entry is None else self.file_of(entry)

    def failures(self, key: ArtifactKey) -> dict[str, str]:
        """Return query id -> why the retriever failed on it, of one run."""
        manifest = self.manifest(key)
        return dict(manifest.failures) if manifest is not None else {}

    def _entry(self, key: ArtifactKey) -> SnapshotEntry | None:
        entries = self.evaluation.entries_of(key.asset)
        return next((entry for entry in entries if entry.key == key), None)

    @property
    def _runs(self) -> list[SnapshotEntry]:
        return [entry for entry in self.evaluation.entries if entry.asset.endswith("_runs")]

    def rankings(self) -> dict[str, str]:
        """Return retriever -> fingerprint of the ranking from which its largest cell was cut."""
        runs = sorted(self._runs, key=lambda entry: int(entry.partition["top_k"]))
        manifests = ((entry.partition["retriever"], self.manifest_of(entry)) for entry in runs)
        return {name: str(m.facts.get("ranking")) for name, m in manifests if m is not None}

    @cached_property
    def cost_times(self) -> dict[tuple[str, int], float]:
        """(Retriever, top_k) -> mean milliseconds of a query at that cut-off.

        With all that it needs, rewriting included; without the cells that were not measured.
        """
        measurements = Measurements(self.root.parent / MEASUREMENTS)
        cells = (
            (entry.partition, measurements.cost_time(entry.fingerprint)) for entry in self._runs
        )
        return {(c["retriever"], int(c["top_k"])): of[0] for c, of in cells if of is not None}

    @cached_property
    def latencies(self) -> dict[str, Measurement]:
        """Retriever -> its measurement of single queries, if there is one."""
        measurements = Measurements(self.root.parent / MEASUREMENTS)
        timed = {name: measurements.find("latency", of) for name, of in self.rankings().items()}
        return {name: measured for name, measured in timed.items() if measured is not None}

    @cached_property
    def queries(self) -> pa.Table:
        """Table of :data:`rag_assets.schemas.QUERIES`."""
        return self.table_of("queries")

    def documents(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return title and text of some documents; the others are not kept in memory."""
        import pyarrow.dataset as ds

        path = self.path(DOCUMENTS_KEY)
        if path is None:
            return {}
        columns = ["document_id", "title", "text"]
        wanted = ds.field("document_id").isin(pa.array(sorted(set(ids)), pa.string()))
        table = ds.dataset(path).to_table(columns, filter=wanted)
        rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
        return {document_id: (title, text) for document_id, title, text in rows}

    def weights(self, split: str) -> dict[str, float]:
        """Return query id -> weight, for the queries of a split."""
        # Row by row: pyarrow imports pandas when it compares a column with a text.
        rows = column_values(self.table_of("query_facts"), "query_id", "split", "weight")
        return {query_id: weight for query_id, of, weight in rows if of == split}


def concatenated(partitions: Iterable[tuple[Mapping[str, str], pa.Table]]) -> pa.Table:
    """Return the rows of all partitions, with ``retriever``, ``top_k`` ... in front."""
    tables = []
    for partition, table in partitions:
        for number, (name, value) in enumerate(partition.items()):
            if name not in table.column_names:
                kind = pa.int64() if name == "top_k" else pa.string()
                column = pa.array([str(value)] * len(table), pa.string()).cast(kind)
                table = table.add_column(number, name, column)
        tables.append(table)
    return pa.concat_tables(tables)


def _is_named(manifest: Manifest, entry: SnapshotEntry) -> bool:
    stored = (manifest.fingerprint, manifest.digests.get("all"), manifest.files)
    return stored == (entry.fingerprint, entry.digest, entry.files)


def rows_of_queries(table: pa.Table, query_ids: Iterable[str]) -> pa.Table:
    """Return the rows of a table that are of some queries."""
    ids = pa.array(sorted(query_ids), pa.string())
    return table.filter(pc.is_in(table["query_id"], ids))


def pairs_of(table: pa.Table, key: str, value: str) -> dict[str, Any]:
    """Return the values of one column by those of another."""
    return dict(zip(table[key].to_pylist(), table[value].to_pylist(), strict=True))
