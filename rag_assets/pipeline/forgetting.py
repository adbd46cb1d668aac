"""Finds everything in a store that holds a text or was made from it, so that it can be removed.

All experiments are searched: another one may have the same text under another id. Artifacts are
never edited, so those with the text go as a whole, and an evaluation makes them again. So do
indexes and texts that were made from them: their words may tell of it without a piece of it.
Rankings, metrics and the history hold ids and numbers alone and stay.

A text is looked for by fragments without quotes, backslashes and line breaks, so that one is found
inside JSON too, escaped once or twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.chunking.pieces import indexed_texts
from rag_assets.pipeline.cleaning import SNAPSHOTS, TEMPORARY, Item, items, snapshots_of
from rag_assets.pipeline.evaluations import stored_experiments
from rag_assets.pipeline.history_files import HISTORY_DIR
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
from rag_assets.store.settings import StoreSettings

LAST = ("chunks", "documents")
"""Removed last, in this order: after a kill they still say which texts to look for."""

KEPT = (SNAPSHOTS, HISTORY_DIR)

MADE_OF_TEXTS = frozenset(
    {
        *("chunks", "index_texts", "term_counts", "lexical_index", "embedding_index"),
        *("generated_questions", "queries", "query_facts", "query_set_answers", "query_sets"),
        *("answers", "answer_verdicts"),
    }
)
"""Kinds with words or vectors of the texts that they were made from."""

MAX_FRAGMENTS = 8
"""So many fragments of one text are looked for: the first, the last, and some between."""

_MAX_CHARACTERS = 60
_MIN_CHARACTERS = (24, 8, 3)
"""Of a fragment; shorter ones are taken where a text has no longer one."""

_GROUP = 32
"""So many fragments make one regular expression: RE2 is many times slower with hundreds."""


@dataclass(frozen=True)
class Fragments:
    """What is looked for: fragments of texts, at most :data:`MAX_FRAGMENTS` of each."""

    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Fragments:
        """Cut texts into fragments."""
        return cls(tuple(sorted({piece for text in texts for piece in _pieces(text)})))

    def in_file(self, path: Path) -> bool:
        """Return whether a file holds any of them; one that cannot be read as Parquet, as bytes."""
        if not self.texts:
            return False
        with suppress(OSError, pa.ArrowException):
            if path.suffix == ".parquet":
                with pq.ParquetFile(path) as file:
                    # As they lie in memory, texts of lists and structures are whole.
                    batches = (one.serialize() for one in file.iter_batches(batch_size=10_000))
                    metadata = (file.schema_arrow.metadata or {}).values()
                    return any(self._in_bytes(memoryview(part)) for part in (*metadata, *batches))
        return self._in_bytes(path.read_bytes())

    def in_column(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return of each text of a column whether it holds any of them."""
        return self._matches(column, self.texts)

    def _in_bytes(self, content: bytes | memoryview) -> bool:
        forms = set()
        for text in self.texts:
            once = json.dumps(text)[1:-1]
            forms |= {text, once, json.dumps(once)[1:-1]}
        column = pa.chunked_array([pa.array([bytes(content)], pa.large_binary())])
        return bool(pc.any(self._matches(column, sorted(forms))).as_py())

    @staticmethod
    def _matches(column: pa.ChunkedArray, texts: Sequence[str]) -> pa.ChunkedArray:
        matches = pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.bool_))])
        for start in range(0, len(texts), _GROUP):
            pattern = "|".join(rf"\Q{text}\E" for text in texts[start : start + _GROUP])
            found = pc.match_substring_regex(column, pattern)
            matches = pc.or_(matches, pc.fill_null(found, False))
        return matches


def _pieces(text: str) -> list[str]:
    """Return fragments of a text, spread over all of it."""
    runs = [run.strip() for run in re.split(r"[\"'\\\x00-\x1f<>&]", text)]
    for shortest in _MIN_CHARACTERS:
        pieces = [run[:_MAX_CHARACTERS].strip() for run in runs if len(run) >= shortest]
        if pieces:
            places = np.linspace(0, len(pieces) - 1, min(len(pieces), MAX_FRAGMENTS)).round()
            return [pieces[int(place)] for place in places]
    return []


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
                f"{CACHE}/{segment.kind}",
                round(segment.size * pc.mean(rows).as_py()),
                reason="holds the text",
            )
            for segment, rows in self.entries.items()
        ]
        return [*self.files, *caches]

    def remove(self, settings: StoreSettings) -> None:
        """Remove it all; the documents go last.

        Raises:
            StoreError: the store cannot be written.
        """
        rest = [
            write_without(segment, rows)
            for segment, rows in self.entries.items()
            if not pc.all(rows).as_py()
        ]
        if settings.remote is not None:
            settings.remote.send(rest)
        settings.remove(segment.path for segment in self.entries)
        for is_last in (False, True):
            settings.remove(item.path for item in self.files if (item.kind in LAST) is is_last)


def to_forget(
    settings: StoreSettings,
    document_id: str | None = None,
    text: str | None = None,
    experiment: str | None = None,
) -> Forgotten | None:
    """Return what holds the text of a document, or another text, in all experiments of a store.

    Args:
        settings: the store; of a remote one, everything is fetched.
        document_id: a document.
        text: a text.
        experiment: whose document it is; None: any's that has one of this id.

    Returns:
        None: no artifact holds such a document, and there is no text.

    Raises:
        StoreError: a snapshot cannot be read, so it is not known what it names; or the remote store
            cannot be used.
    """
    if settings.remote is not None:
        settings.remote.pull()
        settings.remote.fetch("")
    contents = items(settings)
    named, sources = _named(settings.store)
    texts = {text} if text else set()
    for item in contents:
        owners = {item.experiment} | named.get(item.path, set())
        if item.kind in LAST and document_id is not None and experiment in (None, *owners):
            table = _table(item)
            if table is not None:
                chosen = table.filter(pc.equal(table["document_id"], document_id))
                texts.update(chosen["text"].to_pylist())
    if not texts:
        return None
    search = _Search(contents, texts)
    holding = {item.path for item in contents if search.is_in(item)}
    made = search.made_from(holding)
    files = []
    for item in contents:
        is_unreadable = search.manifests[item.path] is None
        is_made = item.kind in MADE_OF_TEXTS and (item.path in made or is_unreadable)
        if item.path in holding or is_made:
            owners = {item.experiment} - {""} | named.get(item.path, set())
            by = ", ".join(sorted(owners))
            files.append(replace(item, experiment=by, reason="holds the text"))
    files.sort(key=lambda item: LAST.index(item.kind) if item.kind in LAST else -1)
    touched = {name for item in files for name in item.experiment.split(", ")}
    in_kept = (item for item in contents if item.kind in KEPT)
    return Forgotten(
        (*_dagster(settings), *files),
        dict(search.cache_entries(settings.store)),
        {name: source for name, source in sources.items() if name in touched},
        tuple(item.path for item in in_kept if search.fragments.in_file(item.path)),
    )


def _named(store: Path) -> tuple[dict[Path, set[str]], dict[str, str]]:
    """Return artifact -> experiments that name it, and experiment -> source."""
    named: dict[Path, set[str]] = {}
    sources: dict[str, str] = {}
    for root in stored_experiments(store):
        for evaluation in snapshots_of(root):
            sources[root.name] = evaluation.source
            for entry in (*evaluation.entries, *evaluation.rankings):
                named.setdefault(store / entry.path, set()).add(root.name)
    return named, sources


def _table(item: Item) -> pa.Table | None:
    """Return a table of texts; None if it is damaged, then its bytes are searched."""
    try:
        return read_parquet(item.path / TABLE)
    except (OSError, pa.ArrowException):
        return None


class _Search:
    """Looks for texts in what is stored."""

    def __init__(self, contents: Iterable[Item], texts: set[str]) -> None:
        self._contents = list(contents)
        self.manifests = {item.path: read_manifest(item.path) for item in self._contents}
        self._chunks = [table for item in self._contents for table in self._cut_from(item, texts)]
        self.fragments = Fragments.of(texts.union(*map(_indexed, self._chunks)))

    def _cut_from(self, item: Item, texts: set[str]) -> Iterator[pa.Table]:
        """Yield the chunks of a table of chunks that were cut from one of the texts."""
        table = _table(item) if item.kind == "chunks" else None
        if table is not None:
            ids = table["text"].to_pylist()
            is_cut = [any(chunk in text for text in texts) for chunk in ids]
            chosen = table.filter(pa.array(is_cut, pa.bool_()))
            yield from [chosen] if chosen.num_rows else []

    def is_in(self, item: Item) -> bool:
        """Return whether a file or artifact holds a fragment; what was never finished may."""
        if item.kind in (CACHE, *KEPT):
            return False
        files = item.path.rglob("*") if item.path.is_dir() else [item.path]
        return item.kind == TEMPORARY or any(
            self.fragments.in_file(file) for file in files if file.is_file()
        )

    def made_from(self, paths: Iterable[Path]) -> set[Path]:
        """Return artifacts, and all that was made from them through any others."""
        made = set(paths)
        digests = {d for path in made for d in _digests(self.manifests[path])}
        n_before = -1
        while len(made) > n_before:
            n_before = len(made)
            for path, manifest in self.manifests.items():
                if manifest and not digests.isdisjoint(manifest.inputs.values()):
                    made.add(path)
                    digests.update(_digests(manifest))
        return made

    def cache_entries(self, store: Path) -> Iterator[tuple[CacheSegment, pa.BooleanArray]]:
        """Yield entries of caches: vectors by the keys of their texts, replies by their words."""
        manifests = [manifest for manifest in self.manifests.values() if manifest]
        prompts = {"", *(prompt for one in manifests for prompt in _prompts(one.config))}
        gone, stored = self._stored_texts()
        # Vectors of single sentences: their texts are not stored, so all without a stored text go.
        by_sentence = any(one.config.get("strategy") == "semantic" for one in manifests)
        for segment in (one for one in cache_segments(store) if one.entries >= 0):
            if segment.kind in BY_TEXT:
                keys = read_parquet(segment.path, ["key"]).column("key").combine_chunks()
                rows = pc.is_in(keys, text_keys([p + text for text in gone for p in prompts]))
                if by_sentence and segment.kind == "embeddings":
                    known = text_keys([p + text for text in stored for p in prompts])
                    rows = pc.or_(rows, pc.invert(pc.is_in(keys, known)))
            elif segment.kind == COMPLETIONS:
                table = read_parquet(segment.path, ["request", "text"])
                masks = [self.fragments.in_column(column) for column in table.columns]
                rows = pc.or_(*masks).combine_chunks()
            else:
                continue  # scores of pairs: hashes and numbers alone
            if pc.any(rows).as_py():
                yield segment, rows

    def _stored_texts(self) -> tuple[set[str], set[str]]:
        """Return the texts that go, in each form in which one may be embedded; and all of them."""
        gone: set[str] = set().union(*map(_indexed, self._chunks))
        ids = {chunk_id for table in self._chunks for chunk_id in table["chunk_id"].to_pylist()}
        stored: set[str] = set()
        for item in self._contents:
            is_text = item.kind in ("chunks", "index_texts", "queries", "query_sets")
            table = _table(item) if is_text else None
            if table is None:
                continue
            mask = self.fragments.in_column(table["text"])
            if item.kind == "index_texts":
                mask = pc.or_(mask, pc.is_in(table["chunk_id"], pa.array(sorted(ids), pa.string())))
            forms = _indexed if item.kind == "chunks" else _texts
            gone |= forms(table.filter(mask))
            stored |= forms(table)
        return gone, stored


def _texts(table: pa.Table) -> set[str]:
    return set(table["text"].to_pylist())


def _indexed(chunks: pa.Table) -> set[str]:
    """Return the texts of chunks, in each form in which one may be embedded."""
    return _texts(chunks).union(indexed_texts(chunks), indexed_texts(chunks, headings=True))


def _digests(manifest: Manifest | None) -> Iterable[str]:
    return manifest.digests.values() if manifest is not None else ()


def _prompts(config: Mapping[str, object]) -> Iterator[str]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _prompts(value)
        elif name.endswith("prompt") and isinstance(value, str):
            yield value


def _dagster(settings: StoreSettings) -> list[Item]:
    """Return the store's Dagster instance: it shows first rows, and nobody can search it."""
    home = settings.dagster_home
    if settings.has_dagster_home or not any((home / "rag_assets").glob("*.json")):
        return []
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return [Item(home, "Dagster instance", size, reason="may show the text")]
