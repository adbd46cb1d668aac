"""What a plan compares: what the store holds of a partition, and what the files say now.

Tables of an experiment's files are read into memory, not into the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from rag_assets.engine.recipe import Recipe
from rag_assets.engine.stage import Stage, TableProduct, checked, table_manifest
from rag_assets.errors import NotEvaluated, StoreError
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.hosts import all_clients, retriever_client
from rag_assets.pipeline.evaluations import SnapshotEntry, read_current
from rag_assets.pipeline.reasons import Reason, row_changes
from rag_assets.query_sets.stage import reads_fields
from rag_assets.store.artifacts import Artifact, ArtifactKey, ArtifactStore
from rag_assets.store.file_stamps import modified

if TYPE_CHECKING:
    from rag_assets.pipeline.pipeline import Pipeline

SOURCES = ("documents", "queries", "qrels")
_READABLE = (*SOURCES, "query_facts", "document_fields")
"""Assets that are read from files in a moment, and so for a plan too."""


class Reference(NamedTuple):
    """With what a partition is compared.

    Attributes:
        artifact: that of the last evaluation; None: there is none that can be read.
        lost: fingerprint of the artifact of the last evaluation, where it cannot be read any more.
        damaged: whether that one is still there.
    """

    artifact: Artifact | None
    lost: str | None = None
    damaged: bool = False


class StoredArtifacts:
    """The artifacts of a store, as one experiment sees them."""

    def __init__(self, store: ArtifactStore, root: Path) -> None:
        """Look into ``store``, and the experiment's folder ``root``; nothing is read yet."""
        self._store, self._root = store, root
        self._artifacts: dict[str, list[Artifact]] = {}

    @cached_property
    def _entries(self) -> dict[ArtifactKey, SnapshotEntry]:
        try:
            return {entry.key: entry for entry in read_current(self._root).entries}
        except (NotEvaluated, StoreError):
            return {}

    def artifacts(self, asset: str) -> list[Artifact]:
        """Return all readable artifacts of an asset, the newest first, whoever wanted them."""
        if asset not in self._artifacts:
            paths = [self._store.objects / asset / name for name in self._store.names(asset)]
            artifacts = [artifact for path in paths if (artifact := self._store.read(path))]
            artifacts.sort(key=lambda each: (-modified(each.path), each.path.name))
            self._artifacts[asset] = artifacts
        return self._artifacts[asset]

    def reference(self, key: ArtifactKey) -> Reference:
        """Return what is compared with what is wanted now."""
        entry = self._entries.get(key)
        if entry is None:
            return Reference(None)
        path = self._store.root / entry.path
        artifact = self._store.read(path)
        if artifact is None:
            return Reference(None, entry.fingerprint, path.exists())
        return Reference(artifact)


@dataclass(frozen=True)
class _TableInMemory(Artifact):
    """An artifact that an evaluation would write, in memory."""

    content: pa.Table = None

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        return self.content if columns is None else self.content.select(list(columns))


def is_readable(experiment: Experiment, key: ArtifactKey) -> bool:
    """Return whether a plan reads a partition: also the chunks that a model or server is sent."""
    if key.asset != "chunks":
        return key.asset in _READABLE
    return key["chunking"] in _sent_chunkings(experiment)


def _sent_chunkings(experiment: Experiment) -> set[str]:
    """Return the chunkings whose chunks a language model or server is sent, and that no model cuts.

    Unless these are cut, nobody can say how often it is asked.
    """
    chunkings = experiment.chunkings
    names = {n for n in chunkings if any(text.asks for text in chunkings[n].index_texts or ())}
    for name in experiment.retrievers:
        if retriever_client(experiment, name) and not experiment.located_of(name):
            names.update(experiment.chunkings_of(name))
    if experiment.questions is not None:
        names.add(str(experiment.questions.chunking))
    return {name for name in names if chunkings[name].by_blocks}


def read_source(
    pipeline: Pipeline, stage: Stage, key: ArtifactKey, recipe: Recipe, stored: Artifact | None
) -> list[Reason] | None:
    """Read a table as an evaluation would, and make it the up-to-date one of ``pipeline``.

    Args:
        pipeline: of the plan.
        stage: of a partition that :func:`is_readable`.
        key: its partition.
        recipe: what determines it now.
        stored: with what it is compared.

    Returns:
        Which of its rows differ; of sources alone. None where it was not read: with nothing stored
        there is nothing to compare with, neither here nor below. Queries, chunks, and what a prompt
        says of documents, are read also then where they tell how often a model or server is asked.

    Raises:
        DataError: the files break their format.
    """
    experiment = pipeline.experiment
    asking = {"queries"} if all_clients(experiment) else set()
    asking |= {"documents", "document_fields"} if reads_fields(experiment) else set()
    asking |= {"documents", "chunks"} if _sent_chunkings(experiment) else set()
    if stored is None and stage.name not in asking:
        return None
    product = stage.compute_one(pipeline, key)
    if not isinstance(product, TableProduct):
        raise TypeError(f"{key} is no table")
    product = checked(stage, product)
    path = pipeline.store.path(key.asset, recipe.fingerprint)
    # Blocks are read from a file, and this table has none.
    manifest = replace(table_manifest(stage, product, recipe), blocks=())
    pipeline.assume(key, _TableInMemory(path, manifest, content=product.table))
    if stored is None or stage.schema is None or stage.name not in SOURCES:
        return []
    return row_changes(stage.name, stored.table(), product.table, stage.schema.key)
