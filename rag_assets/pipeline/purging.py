"""Finds everything in a store that holds the text of one document, so that it can be removed.

It goes by the text, through all experiments: another one may have the same text under another id.
Documents, chunks and indexes that were made from it go as a whole: artifacts are never edited, and
an evaluation makes them again without it. Rankings, metrics and the history hold ids and numbers
alone and stay, so old evaluations can still be compared. All other files are searched for pieces of
the text. Of the caches go its vectors, and the answers of language models that were shown it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.chunking.index_texts import INDEX_TEXTS
from rag_assets.pipeline.cache_pruning import (
    Dropped,
    chunk_texts,
    prompts_in,
    to_prune,
    vector_keys,
)
from rag_assets.pipeline.cleaning import SNAPSHOTS, TEMPORARY, Item, items, snapshots_of
from rag_assets.pipeline.remote_sync import HISTORY, experiment_roots
from rag_assets.retrieval.base_runs_stage import UNITS_FILE
from rag_assets.schemas import CHUNKS, DOCUMENTS
from rag_assets.store.artifacts import Manifest, read_manifest
from rag_assets.store.atomic import TABLE
from rag_assets.store.cache_files import (
    BY_TEXT,
    CACHE,
    COMPLETIONS,
    cache_segments,
    keys_of,
    readable,
)
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.remote.removals import bring_all
from rag_assets.store.settings import StoreSettings
from rag_assets.store.text_search import Fragments

INDEXES = ("term_counts", "lexical_index", "embedding_index")
"""Folders that hold words or vectors of chunks, and whose units say of which documents."""

_WRITTEN = (
    "index_texts",
    "generated_questions",
    "queries",
    "query_facts",
    "query_set_answers",
    "query_sets",
    "answers",
)
"""What a model may have written of texts, and what repeats it; each after what it is made of."""

MADE_OF_TEXTS = (*_WRITTEN, "answer_verdicts")
"""What was made of texts, and may tell of them in words of its own; verdicts repeat answers."""

LAST = ("chunks", "documents")
"""Removed last, in this order: a purge that was killed finds by them what is left."""


@dataclass(frozen=True)
class Purge:
    """What holds the text of one document.

    Attributes:
        files: artifacts and other files, in the order in which they go.
        dropped: entries of the caches.
        sources: experiment -> source, of those that name or hold any of the files.
        kept: snapshots and files of the history in which a piece of it stands.
    """

    files: tuple[Item, ...]
    dropped: tuple[Dropped, ...]
    sources: Mapping[str, str]
    kept: tuple[Path, ...]


@dataclass(frozen=True)
class _Texts:
    """The document, in all versions that are stored, whatever its id there.

    Attributes:
        documents: its texts.
        titled: each with its title.
        chunks: its chunks in each form in which they are indexed.
        index_texts: other texts by which these are found.
        chunk_ids: of its chunks.
        ids: digest of documents -> its ids in them.
        manifests: those of the artifacts of documents and chunks that hold it, by their paths.
    """

    documents: set[str] = field(default_factory=set)
    titled: set[str] = field(default_factory=set)
    chunks: set[str] = field(default_factory=set)
    chunk_ids: set[str] = field(default_factory=set)
    index_texts: set[str] = field(default_factory=set)
    ids: dict[str, set[str]] = field(default_factory=dict)
    manifests: dict[Path, Manifest | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, tables: Sequence[Item], own: Iterable[Item], document_id: str, found_by: Sequence[Item]
    ) -> _Texts:
        """Return the document as tables hold it.

        In ``own`` it has its id; elsewhere it is one of the same text, and what was cut from it.
        """
        texts = cls()
        for item in own:
            texts.take(item, pc.field("document_id") == document_id)
        same = pc.field("text").isin(pa.array(sorted(texts.documents), pa.string()))
        for item in tables:
            if item.kind == "documents":
                texts.take(item, same)
        for item in tables:
            manifest = read_manifest(item.path) if item.kind == "chunks" else None
            made_from = manifest.inputs.values() if manifest is not None else ()
            ids = sorted({one for digest in made_from for one in texts.ids.get(digest, ())})
            if ids:
                texts.take(item, pc.field("document_id").isin(ids))
        for item in found_by:
            texts.take_index_texts(item)
        return texts

    def take_index_texts(self, item: Item) -> None:
        """Add the texts by which chunks that were taken are found."""
        try:
            table = read_parquet(item.path / TABLE, ["chunk_id", "text"])
        except (OSError, pa.ArrowException):
            return  # damaged: its vectors cannot be told from others
        own = pc.is_in(table["chunk_id"], pa.array(sorted(self.chunk_ids), pa.string()))
        self.index_texts.update(table.filter(own)["text"].to_pylist())

    def take(self, item: Item, chosen: pc.Expression) -> None:
        """Add the rows that are chosen of a table."""
        rows = _rows_of(item, chosen)
        if rows is None or not rows.num_rows:
            return
        manifest = self.manifests[item.path] = read_manifest(item.path)
        if item.kind == "chunks":
            self.chunks.update(chunk_texts(rows))
            self.chunk_ids.update(rows["chunk_id"].to_pylist())
            return
        self.documents.update(rows["text"].to_pylist())
        self.titled.update(f"{row['title']}\n{row['text']}" for row in rows.to_pylist())
        for digest in manifest.digests.values() if manifest is not None else ():
            self.ids.setdefault(digest, set()).update(rows["document_id"].to_pylist())

    @property
    def all(self) -> set[str]:
        return self.documents | self.titled | self.chunks

    @property
    def fragments(self) -> Fragments:
        return Fragments.of(self.all)


def to_purge(
    settings: StoreSettings, document_id: str, experiment: str | None = None
) -> Purge | None:
    """Return what holds the text of a document, in all experiments of a store.

    Args:
        settings: the store.
        document_id: the document.
        experiment: whose document it is; None: any's that has one of this id.

    Returns:
        None: no artifact holds such a document.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what it names; or the remote store
            cannot be used.
    """
    store = settings.store
    bring_all(store)
    contents = items(store)
    named, sources = _named(store)
    tables = [item for item in contents if item.kind in LAST]
    own = [
        item
        for item in tables
        if experiment in (None, item.experiment) or experiment in named.get(item.path, ())
    ]
    found_by = [item for item in contents if item.kind == INDEX_TEXTS.name]
    texts = _Texts.of(tables, own, document_id, found_by)
    if not texts.manifests:
        return None
    fragments = texts.fragments
    derived = _digests_shown(contents, texts)
    files: list[Item] = []
    kept: list[Path] = []
    for item in contents:
        if item.kind in (SNAPSHOTS, HISTORY):
            # What is lost there is lost; a configuration may quote anything.
            kept += [item.path] if fragments.in_file(item.path) else []
        elif _goes(item, texts, fragments) or _is_made_of(item, derived):
            by = {item.experiment} - {""} | named.get(item.path, set())
            files.append(replace(item, experiment=", ".join(sorted(by)), reason="holds the text"))
    files.sort(key=lambda one: LAST.index(one.kind) if one.kind in LAST else -1)
    touched = {name for one in files for name in one.experiment.split(", ")}
    home = settings.dagster_home
    if not settings.has_dagster_home and any((home / "rag_assets").glob("*.json")):
        # The first rows of tables are shown in Dagster, and its database cannot be searched.
        size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
        files.insert(0, Item(home, "Dagster instance", size, 0, "", "may show the text"))
    return Purge(
        tuple(files),
        tuple(_entries(store, contents, texts)),
        {name: source for name, source in sources.items() if name in touched},
        tuple(kept),
    )


def _named(store: Path) -> tuple[dict[Path, set[str]], dict[str, str]]:
    """Return what snapshots name -> by which experiments, and the sources of these."""
    named: dict[Path, set[str]] = {}
    sources: dict[str, str] = {}
    for root in experiment_roots(store):
        for one in snapshots_of(root):
            sources[root.name] = one.source
            for entry in (*one.entries, *one.rankings):
                named.setdefault(store / entry.path, set()).add(root.name)
    return named, sources


def _rows_of(item: Item, chosen: pc.Expression) -> pa.Table | None:
    names = (DOCUMENTS if item.kind == "documents" else CHUNKS).arrow().names
    try:
        return pq.read_table(item.path / TABLE, columns=names, partitioning=None, filters=chosen)
    except (OSError, pa.ArrowException):
        return None  # damaged: what of it can be read is searched with all other files


def _goes(item: Item, texts: _Texts, fragments: Fragments) -> bool:
    if item.kind == TEMPORARY or item.path in texts.manifests:
        return True  # what was never finished may hold anything, and may be half of it
    if item.kind == CACHE:
        return False
    if item.kind in INDEXES:
        try:
            units = read_parquet(item.path / UNITS_FILE, ["document_id"])
        except (OSError, pa.ArrowException):
            return True  # nobody knows what it is of, and it is made again
        ids = {one for own in texts.ids.values() for one in own}
        if pc.any(pc.is_in(units["document_id"], pa.array(sorted(ids), pa.string()))).as_py():
            return True
    files = item.path.rglob("*") if item.path.is_dir() else [item.path]
    return any(fragments.in_file(file) for file in files if file.is_file())


def _digests_shown(contents: Iterable[Item], texts: _Texts) -> set[str]:
    """Return digests of documents with the text, of contexts with some of it, and what is of them.

    That is answers, which verdicts repeat, and questions from chunks.
    """
    digests = {one for own in texts.manifests.values() if own for one in own.digests.values()}
    ids = pa.array(sorted({one for own in texts.ids.values() for one in own}), pa.string())
    for item in contents:
        manifest = read_manifest(item.path) if item.kind == "answer_contexts" else None
        if manifest is None:
            continue
        try:
            shown = read_parquet(item.path / TABLE, ["document_id"])["document_id"]
        except (OSError, pa.ArrowException):
            shown = ids  # nobody knows what it shows, and it is made again
        if pc.any(pc.is_in(shown, ids)).as_py():
            digests.update(manifest.digests.values())
    written = [item for kind in _WRITTEN for item in contents if item.kind == kind]
    for item in written:
        manifest = read_manifest(item.path)
        if manifest is not None and _is_made_of(item, digests):
            digests.update(manifest.digests.values())
    return digests


def _is_made_of(item: Item, digests: set[str]) -> bool:
    """Return whether something was written or judged, or a reader trained, from one of these.

    A short answer is too short to be found as a piece of the text.
    """
    manifest = read_manifest(item.path) if item.kind in MADE_OF_TEXTS else None
    return manifest is not None and not digests.isdisjoint(manifest.inputs.values())


def _entries(store: Path, contents: Iterable[Item], texts: _Texts) -> Iterator[Dropped]:
    prompts = {
        "",
        *(prompt for item in contents for prompt in prompts_in(item.path)),
    }
    keys = vector_keys(texts.all | texts.index_texts, prompts)
    dropped: dict[Path, Dropped] = {}
    for segment in readable(cache_segments(store)):
        if segment.kind in BY_TEXT:
            rows = pc.is_in(keys_of(segment), keys)
        elif segment.kind == COMPLETIONS:
            table = read_parquet(segment.path, ["request", "text"])
            either = pc.or_(*(texts.fragments.in_column(column) for column in table.columns))
            rows = either.combine_chunks()
        else:
            continue  # scores of pairs: hashes and numbers alone
        dropped[segment.path] = Dropped(segment, rows)
    semantic = [m for m in texts.manifests.values() if m and m.config.get("strategy") == "semantic"]
    if semantic:
        # Its sentences were embedded too, and the windows of sentences are not stored.
        for one in to_prune(store, None, unused=True):
            if one.rows is not None and one.segment.kind == "embeddings":
                both = pc.or_(one.rows, dropped[one.segment.path].rows)
                dropped[one.segment.path] = Dropped(one.segment, both)
    return (one for one in dropped.values() if one.entries)
