"""Finds everything in a store that holds the text of one document, so that it can be removed.

Documents, chunks and indexes that were made from it go as a whole: artifacts are never edited, and
an evaluation makes them again without it. Rankings, metrics and the history hold ids and numbers
alone and stay, so old evaluations can still be compared. All other files are searched for pieces of
the text. Of the caches go its vectors, and the answers of language models that were shown it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.pipeline.cache_keys import chunk_texts, prompts_in, vector_keys
from rag_assets.pipeline.cache_pruning import Dropped, to_prune
from rag_assets.pipeline.cleaning import Removable, artifacts_of, size_of, unfinished
from rag_assets.pipeline.evaluations import FOLDER
from rag_assets.pipeline.history_files import FOLDER as HISTORY
from rag_assets.pipeline.stages.index_units import UNITS_FILE
from rag_assets.schemas import CHUNKS, DOCUMENTS
from rag_assets.store.artifacts import OBJECTS, Manifest, read_manifest, table_file
from rag_assets.store.cache_files import (
    BY_TEXT,
    CACHE,
    COMPLETIONS,
    cache_segments,
    keys_of,
    readable,
)
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.settings import StoreSettings
from rag_assets.store.text_search import Fragments

INDEXES = ("term_counts", "lexical_index", "embedding_index")
"""Folders that hold words or vectors of chunks, and whose units say of which documents."""

_LAST = ("chunks", "documents")
"""Removed last, in this order: a purge that was killed finds by them what is left."""


@dataclass(frozen=True)
class Purge:
    """What holds the text of one document in one experiment.

    Attributes:
        experiment: its name.
        files: artifacts and other files, in the order in which they go.
        dropped: entries of the caches.
    """

    experiment: str
    files: tuple[Removable, ...]
    dropped: tuple[Dropped, ...]


@dataclass(frozen=True)
class _Texts:
    """The document, in all versions that are stored.

    Attributes:
        document_id: its id.
        whole: its texts and titles.
        chunks: its chunks in each form in which they are indexed.
        paths: the artifacts of documents and chunks that hold it.
        manifests: theirs.
    """

    document_id: str
    whole: frozenset[str]
    chunks: frozenset[str]
    paths: frozenset[Path]
    manifests: tuple[Manifest, ...]

    @property
    def fragments(self) -> Fragments:
        return Fragments.of([*self.whole, *self.chunks])


def to_purge(root: Path, settings: StoreSettings, document_id: str) -> Purge | None:
    """Return what holds the text of a document.

    Args:
        root: the experiment's folder in the store.
        settings: the store.
        document_id: the document.

    Returns:
        None: no artifact of the experiment holds it.
    """
    artifacts, objects = list(artifacts_of(root)), root.parent / OBJECTS
    texts = _texts_of(artifacts, document_id)
    if not texts.paths:
        return None
    gone = {path: asset for asset, path in artifacts if _holds(asset, path, texts)}
    # What was never finished may hold anything, and may be half of it.
    gone |= {one.path: one.kind for f in (root, objects) for one in unfinished(f)}
    for path in (*_other_files(root, set(gone)), *_other_files(objects, set(gone))):
        if texts.fragments.in_file(path):
            owner = next((p for _, p in artifacts if p in (path, *path.parents)), path)
            folder = objects if owner.is_relative_to(objects) else root
            gone[owner] = owner.relative_to(folder).parts[0]
    files = [Removable(path, kind, size_of(path)) for path, kind in sorted(gone.items())]
    files += unfinished(settings.store / CACHE)
    files.sort(key=lambda one: _LAST.index(one.kind) if one.kind in _LAST else -1)
    home = settings.dagster_home
    if not settings.has_dagster_home and (home / "rag_assets" / f"{root.name}.json").is_file():
        # The first rows of tables are shown in Dagster, and its database cannot be searched.
        files.insert(0, Removable(home, "Dagster instance", size_of(home)))
    return Purge(root.name, tuple(files), tuple(_entries(settings, artifacts, texts)))


def _texts_of(artifacts: list[tuple[str, Path]], document_id: str) -> _Texts:
    whole: set[str] = set()
    chunks: set[str] = set()
    paths: set[Path] = set()
    manifests = []
    for asset, path in artifacts:
        if asset not in ("documents", "chunks"):
            continue
        rows = _rows_of(asset, path, document_id)
        if rows is None or not rows.num_rows:
            continue
        paths.add(path)
        manifest = read_manifest(path)
        manifests += [manifest] if manifest is not None else []
        if asset == "documents":
            for row in rows.to_pylist():
                whole |= {row["text"], f"{row['title']}\n{row['text']}"}
        else:
            chunks |= chunk_texts(rows)
    both = frozenset(whole), frozenset(chunks)
    return _Texts(document_id, *both, frozenset(paths), tuple(manifests))


def _rows_of(asset: str, path: Path, document_id: str) -> pa.Table | None:
    names = (DOCUMENTS if asset == "documents" else CHUNKS).arrow().names
    try:
        return pq.read_table(
            table_file(path),
            columns=names,
            partitioning=None,
            filters=pc.field("document_id") == document_id,
        )
    except (OSError, pa.ArrowException):
        return None  # damaged: what of it can be read is searched with all other files


def _holds(asset: str, path: Path, texts: _Texts) -> bool:
    """Whether an artifact is of the document: itself, or what was made from its chunks."""
    if asset not in INDEXES:
        return path in texts.paths
    try:
        units = read_parquet(path / UNITS_FILE, ["document_id"])
    except (OSError, pa.ArrowException):
        return True  # nobody knows what it is of, and it is made again
    return bool(pc.is_in(pa.scalar(texts.document_id), units["document_id"]).as_py())


def _other_files(root: Path, gone: set[Path]) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        # Snapshots and history hold names, digests and numbers, and what is lost there is lost.
        kept = path.relative_to(root).parts[0] in (FOLDER, HISTORY)
        if path.is_file() and not kept and gone.isdisjoint((path, *path.parents)):
            yield path


def _entries(
    settings: StoreSettings, artifacts: list[tuple[str, Path]], texts: _Texts
) -> Iterator[Dropped]:
    prompts = {"", *(prompt for _, path in artifacts for prompt in prompts_in(path))}
    keys = vector_keys(texts.chunks | texts.whole, prompts)
    found: dict[Path, Dropped] = {}
    for segment in readable(cache_segments(settings.store)):
        if segment.kind in BY_TEXT:
            rows = pc.is_in(keys_of(segment), keys)
        elif segment.kind == COMPLETIONS:
            table = read_parquet(segment.path, ["request", "text"])
            either = pc.or_(*(texts.fragments.in_column(column) for column in table.columns))
            rows = either.combine_chunks()
        else:
            continue  # scores of pairs: hashes and numbers alone
        found[segment.path] = Dropped(segment, rows)
    if any(one.config.get("strategy") == "semantic" for one in texts.manifests):
        # Its sentences were embedded too, and the windows of sentences are not stored.
        for one in to_prune(settings.store, None, unused=True):
            if one.rows is not None and one.segment.kind == "embeddings":
                both = pc.or_(one.rows, found[one.segment.path].rows)
                found[one.segment.path] = Dropped(one.segment, both)
    return (one for one in found.values() if one.entries)
