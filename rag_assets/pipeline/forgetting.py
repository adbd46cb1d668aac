"""Finds everything in a store that holds a text or was made from it, so that it can be removed.

All experiments are searched: another one may have the same text under another id. Artifacts are
never edited, so those with the text go as a whole, and an evaluation makes them again. So do
indexes and texts that were made from them: their words may tell of it without a piece of it.
Rankings, metrics and the history hold ids and numbers alone and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.chunking.chunk_table import indexed_texts
from rag_assets.pipeline.cleaning import SNAPSHOTS, TEMPORARY, Item, items, snapshots_of
from rag_assets.pipeline.remote_sync import HISTORY, experiment_roots
from rag_assets.store.artifacts import Manifest, read_manifest
from rag_assets.store.atomic import TABLE
from rag_assets.store.content_cache import (
    BY_TEXT,
    CACHE,
    COMPLETIONS,
    CacheSegment,
    cache_segments,
    text_keys,
    write_without,
)
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.remote.mirror import mirror
from rag_assets.store.remote.removals import fetch_all, remove_everywhere
from rag_assets.store.settings import StoreSettings
from rag_assets.store.text_search import Fragments

LAST = ("chunks", "documents")
"""Removed last, in this order: after a kill they still say which texts to look for."""

KEPT = (SNAPSHOTS, HISTORY)

MADE_OF_TEXTS = frozenset(
    {
        *("chunks", "index_texts", "term_counts", "lexical_index", "embedding_index"),
        *("generated_questions", "queries", "query_facts", "query_set_answers", "query_sets"),
        *("answers", "answer_verdicts"),
    }
)
"""Kinds with words or vectors of the texts that they were made from."""


@dataclass(frozen=True)
class Forgotten:
    """Everything that holds a text.

    Attributes:
        files: artifacts and other files, in the order in which they go.
        entries: cache file -> of each of its rows whether it goes.
        sources: experiment -> source, of those that name or hold any of the files.
        kept: snapshots and files of the history in which a piece of the text stands.
    """

    files: tuple[Item, ...]
    entries: Mapping[CacheSegment, pa.BooleanArray]
    sources: Mapping[str, str]
    kept: tuple[Path, ...]

    @property
    def items(self) -> list[Item]:
        """All that goes; of a cache file, the share of its bytes that its entries have."""
        caches = [
            Item(
                segment.path,
                f"cache/{segment.kind}",
                round(segment.size * pc.mean(rows).as_py()),
                0,
                reason="holds the text",
            )
            for segment, rows in self.entries.items()
        ]
        return [*self.files, *caches]

    def remove(self, store: Path) -> None:
        """Remove it all; the documents go last.

        Raises:
            StoreError: the store cannot be written.
        """
        for segment, rows in self.entries.items():
            if not pc.all(rows).as_py():
                mirror(write_without(segment, rows))
        remove_everywhere(store, [segment.path for segment in self.entries])
        for last in (False, True):
            paths = [item.path for item in self.files if (item.kind in LAST) is last]
            remove_everywhere(store, paths)


def to_forget(
    settings: StoreSettings,
    document_id: str | None = None,
    text: str | None = None,
    experiment: str | None = None,
) -> Forgotten | None:
    """Return what holds the text of a document, or another text, in all experiments of a store.

    Args:
        settings: the store.
        document_id: a document.
        text: a text.
        experiment: whose document it is; None: any's that has one of this id.

    Returns:
        None: no artifact holds such a document, and there is no text.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what it names; or the remote store
            cannot be used.
    """
    store = settings.store
    fetch_all(store)
    contents = items(store)
    named, sources = _named(store)
    own = [
        item
        for item in contents
        if experiment in (None, item.experiment) or experiment in named.get(item.path, ())
    ]
    texts = {text} if text else set()
    for item in own:
        if item.kind in LAST and document_id is not None:
            table = _rows(item, "document_id", {document_id})
            texts.update(table["text"].to_pylist())
    if not texts:
        return None
    manifests = {item.path: read_manifest(item.path) for item in contents}
    chunks = _chunks(contents, manifests, texts)
    pieces = Fragments.of(texts.union(*map(_indexed, chunks)))
    found = {item.path for item in contents if _holds(item, pieces)}
    made = _made_from(found, manifests)
    files: list[Item] = []
    for item in contents:
        damaged = item.kind in MADE_OF_TEXTS and manifests[item.path] is None
        derived = item.kind in MADE_OF_TEXTS and item.path in made
        if item.path in found or damaged or derived:
            by = {item.experiment} - {""} | named.get(item.path, set())
            files.append(replace(item, experiment=", ".join(sorted(by)), reason="holds the text"))
    files.sort(key=lambda item: LAST.index(item.kind) if item.kind in LAST else -1)
    touched = {name for item in files for name in item.experiment.split(", ")}
    return Forgotten(
        (*_dagster(settings), *files),
        dict(_entries(store, contents, manifests, pieces, chunks)),
        {name: source for name, source in sources.items() if name in touched},
        tuple(item.path for item in contents if item.kind in KEPT and pieces.in_file(item.path)),
    )


def _named(store: Path) -> tuple[dict[Path, set[str]], dict[str, str]]:
    """Return artifact -> experiments that name it, and experiment -> source."""
    named: dict[Path, set[str]] = {}
    sources: dict[str, str] = {}
    for root in experiment_roots(store):
        for evaluation in snapshots_of(root):
            sources[root.name] = evaluation.source
            for entry in (*evaluation.entries, *evaluation.rankings):
                named.setdefault(store / entry.path, set()).add(root.name)
    return named, sources


def _rows(item: Item, column: str, values: Collection[str]) -> pa.Table:
    """Return rows of a table of texts; none if it is damaged, then its bytes are searched."""
    try:
        table = read_parquet(item.path / TABLE)
    except (OSError, pa.ArrowException):
        return pa.table({"document_id": [], "text": []}).slice(0, 0)
    return table.filter(pc.is_in(table[column], pa.array(sorted(values), pa.string())))


def _chunks(
    contents: Iterable[Item], manifests: Mapping[Path, Manifest | None], texts: Collection[str]
) -> list[pa.Table]:
    """Return the chunks of all documents with one of the texts, whatever the documents' ids."""
    ids: dict[str, set[str]] = {}
    for item in contents:
        manifest = manifests[item.path]
        if item.kind == "documents" and manifest is not None:
            for digest in manifest.digests.values():
                document_ids = _rows(item, "text", texts)["document_id"].to_pylist()
                ids.setdefault(digest, set()).update(document_ids)
    tables = []
    for item in contents:
        manifest = manifests[item.path]
        if item.kind == "chunks" and manifest is not None:
            made_from = set().union(*(ids.get(one, ()) for one in manifest.inputs.values()))
            tables.append(_rows(item, "document_id", made_from))
    return [table for table in tables if table.num_rows]


def _indexed(chunks: pa.Table) -> set[str]:
    """Return the texts of chunks, in each form in which one may be embedded."""
    plain = set(chunks["text"].to_pylist())
    return plain.union(indexed_texts(chunks), indexed_texts(chunks, headings=True))


def _holds(item: Item, pieces: Fragments) -> bool:
    if item.kind in (CACHE, *KEPT):
        return False
    files = item.path.rglob("*") if item.path.is_dir() else [item.path]
    # What was never finished may hold anything, and half of a piece.
    return item.kind == TEMPORARY or any(pieces.in_file(file) for file in files if file.is_file())


def _made_from(found: Collection[Path], manifests: Mapping[Path, Manifest | None]) -> set[Path]:
    """Return artifacts with the text, and all that was made from them through any others."""
    made = set(found)
    digests = {d for path in made if (m := manifests[path]) for d in m.digests.values()}
    grew = True
    while grew:
        new = {
            path: manifest
            for path, manifest in manifests.items()
            if path not in made and manifest and not digests.isdisjoint(manifest.inputs.values())
        }
        made.update(new)
        digests.update(d for manifest in new.values() for d in manifest.digests.values())
        grew = bool(new)
    return made


def _entries(
    store: Path,
    contents: Iterable[Item],
    manifests: Mapping[Path, Manifest | None],
    pieces: Fragments,
    chunks: Iterable[pa.Table],
) -> Iterator[tuple[CacheSegment, pa.BooleanArray]]:
    """Yield entries of caches: vectors by the keys of their texts, replies by their words."""
    prompts = {"", *(p for m in manifests.values() if m for p in _prompts(m.config))}
    gone: set[str] = set().union(*map(_indexed, chunks))
    ids = {chunk_id for table in chunks for chunk_id in table["chunk_id"].to_pylist()}
    stored: set[str] = set()
    for item in contents:
        if item.kind not in ("chunks", "index_texts", "queries", "query_sets"):
            continue
        try:
            table = read_parquet(item.path / TABLE)
        except (OSError, pa.ArrowException):
            continue
        chosen = table.filter(pieces.in_column(table["text"]))
        gone.update(_indexed(chosen) if item.kind == "chunks" else chosen["text"].to_pylist())
        stored.update(_indexed(table) if item.kind == "chunks" else table["text"].to_pylist())
        if item.kind == "index_texts":
            gone.update(_rows(item, "chunk_id", ids)["text"].to_pylist())
    # Vectors of single sentences: their texts are not stored, so all without a stored text go.
    semantic = any(m and m.config.get("strategy") == "semantic" for m in manifests.values())
    for segment in (one for one in cache_segments(store) if one.entries >= 0):
        if segment.kind in BY_TEXT:
            keys = read_parquet(segment.path, ["key"]).column("key").combine_chunks()
            rows = pc.is_in(keys, _keys(gone, prompts))
            if semantic and segment.kind == "embeddings":
                rows = pc.or_(rows, pc.invert(pc.is_in(keys, _keys(stored, prompts))))
        elif segment.kind == COMPLETIONS:
            table = read_parquet(segment.path, ["request", "text"])
            masks = [pieces.in_column(column) for column in table.columns]
            rows = pc.or_(*masks).combine_chunks()
        else:
            continue  # scores of pairs: hashes and numbers alone
        if pc.any(rows).as_py():
            yield segment, rows


def _prompts(config: Mapping[str, object]) -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _prompts(value)
        elif name.endswith("prompt") and isinstance(value, str):
            yield value


def _keys(texts: Iterable[str], prompts: Collection[str]) -> pa.Array:
    """Return the key of every text with every prompt in a cache of vectors."""
    return text_keys([prompt + text for text in texts for prompt in prompts])


def _dagster(settings: StoreSettings) -> list[Item]:
    """Return the store's Dagster instance: it shows first rows, and nobody can search it."""
    home = settings.dagster_home
    if settings.has_dagster_home or not any((home / "rag_assets").glob("*.json")):
        return []
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return [Item(home, "Dagster instance", size, 0, "", "may show the text")]
