"""What checks read besides the partition itself, each table once."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from rag_assets.pipeline.checks.states import State, anchor_of, of_pipeline
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.external.stage import chunk_keys
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.parquet_files import read_parquet

_UNITS = ["chunk_id", "document_id", "parent_chunk_id"]


class Reads:
    """The tables behind the checks of some partitions, which share them."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Read nothing yet."""
        self.pipeline = pipeline
        self._units: dict[tuple[ArtifactKey, ...], pa.Table] = {}

    @cached_property
    def anchor(self) -> State | str:
        """The pinned evaluation; or why there is none to compare with, as a phrase."""
        return anchor_of(self.pipeline)

    @cached_property
    def now(self) -> State:
        """What is up to date."""
        return of_pipeline(self.pipeline)

    @cached_property
    def queries(self) -> pa.Table:
        """All queries.

        Raises:
            MissingArtifact: they are not in the store.
        """
        return self.pipeline.artifact(QUERIES_KEY).table()

    @cached_property
    def documents(self) -> pa.Table:
        """All documents.

        Raises:
            MissingArtifact: they are not in the store.
        """
        return self.pipeline.artifact(DOCUMENTS_KEY).table()

    def units(self, retriever: str) -> pa.Table:
        """Return the ids of all chunks that a retriever can find, their documents and parents.

        Raises:
            MissingArtifact: a chunking is not in the store.
        """
        keys = tuple(chunk_keys(self.pipeline.experiment, retriever))
        if keys not in self._units:
            paths = [self.pipeline.artifact(key).file for key in keys]
            tables = [read_parquet(path, _UNITS) for path in paths]
            self._units[keys] = pa.concat_tables(
                [table.replace_schema_metadata(None) for table in tables]
            )
        return self._units[keys]
