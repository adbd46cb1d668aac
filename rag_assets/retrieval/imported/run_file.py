"""``type: run_file``: a ranking that stands in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa

from rag_assets.evaluation.imported_units import notes, unit_run
from rag_assets.evaluation.run_files import read_run_rows
from rag_assets.retrieval.base import Imported, ImportedRetriever
from rag_assets.retrieval.external.base import QueryResult
from rag_assets.retrieval.imported.hit_lines import read_hit_lines


class RunFileRetriever(ImportedRetriever):
    """A ranking from elsewhere, read from ``path`` (relative to the YAML file).

    A file is TREC, or by its name JSON lines (``.jsonl``), JSON of ranx (``.json``) or Parquet
    (``.parquet``). Its ids are those of chunks of ``chunking``, of their parents or, where
    documents are judged, of documents. With ``chunking: own`` it is JSON lines with ``hits``:
    texts and spans, which are located in the documents.
    """

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["run_file"]
    path: Path

    def read(self, queries: pa.Table, chunks: pa.Table, *, judge: str) -> Imported:
        """Read the file."""
        run = read_run_rows(self.path)
        found = unit_run(run, queries.column("query_id").to_pylist(), chunks, judge)
        facts = {**found.counts, "notes": list(notes(found.counts))}
        return Imported(found.table, facts, found.failures)

    def read_hits(self, queries: pa.Table) -> Mapping[str, QueryResult]:
        """Read the texts and spans in the file."""
        return read_hit_lines(self.path, queries.column("query_id").to_pylist())
