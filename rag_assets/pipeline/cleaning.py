"""Finds what may be removed from a store: what nobody needs, and everything that holds a text.

What a kept snapshot of any experiment names stays, and so does the ranking from which a kept run
was cut. The latest evaluation and the anchor of each experiment are always kept; the rows of the
history always stay. Who removes has the store alone, see :mod:`rag_assets.store.locks`: so nobody
needs or writes an object between mark and sweep that no snapshot names yet.

A text is searched in all experiments: another one may have it under another id. Artifacts are never
edited, so those with the text go as a whole, and an evaluation makes them again. So do indexes and
texts that were made from them: their words may tell of it without a piece of it. Cached vectors
have hashes for names, so all of them go. Rankings, metrics and the history hold ids and numbers
alone and stay. A text is looked for by fragments without quotes, backslashes and line breaks, so
that one is found inside JSON too, escaped once or twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.engine.measurements import MEASUREMENTS
from rag_assets.pipeline.evaluations import (
    ANCHOR,
    CURRENT,
    FOLDER,
    HISTORY_DIR,
    Evaluation,
    pointed,
    read_evaluation,
    snapshot_file,
    snapshot_ids,
    stored_experiments,
)
from rag_assets.store.artifacts import OBJECTS, Manifest, read_manifest
from rag_assets.store.atomic import TABLE, TEMPORARY_MARK
from rag_assets.store.content_cache import (
    BY_TEXT,
    CACHE,
    COMPLETIONS,
    write_without,
)
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.settings import StoreSettings

SPARED = timedelta(hours=1)
"""What is younger is no orphan: single partitions may be computed before there is a snapshot."""

SNAPSHOTS = "snapshots"
TEMPORARY = "temporary files"

OTHER = "other files"
"""Never removed: what the user put beside evaluations and history."""

SHARED = (OBJECTS, MEASUREMENTS, CACHE)
"""Folders of what all experiments share."""

LAST = ("chunks", "documents")
"""Removed last, in this order: after a kill they still say which texts to look for."""

MADE_OF_TEXTS = frozenset(
    {
        *("chunks", "index_texts", "term_counts", "lexical_index", "embedding_index"),
        *("generated_questions", "queries", "query_facts", "query_set_answers", "query_sets"),
        *("answers", "answer_verdicts", "claim_verdicts"),
    }
)
"""Kinds with words or vectors of the texts that they were made from."""

REPLIES = f"{CACHE}/{COMPLETIONS}"
VECTORS = frozenset(f"{CACHE}/{name}" for name in BY_TEXT)
"""Kinds of caches."""

MAX_FRAGMENTS = 8
"""So many fragments of one text are looked for: the first, the last, and some between."""

_MAX_CHARACTERS = 60
_MIN_CHARACTERS = (24, 8, 3)
"""Of a fragment; shorter ones are taken where a text has no longer one."""

_GROUP = 32
"""So many fragments make one regular expression: RE2 is many times slower with hundreds."""


@dataclass(frozen=True)
class Item:
    """A file of a store, or a folder that is one artifact.

    Attributes:
        path: where it lies, in the local copy if the store is a remote one.
        kind: the asset whose artifact it is; or snapshots, measurements, temporary files, or a
            cache, such as ``cache/embeddings``.
        size: bytes.
        modified: when the last of its files was written, in nanoseconds since 1970.
        experiment: in whose folder it lies, or who named it; empty: none does.
        reason: why it may go.
    """

    path: Path
    kind: str
    size: int
    modified: int = 0
    experiment: str = ""
    reason: str = ""

    @property
    def is_cached(self) -> bool:
        """Whether it is a file of a cache."""
        return self.kind.startswith(f"{CACHE}/")


def items(settings: StoreSettings) -> list[Item]:
    """Return all that is stored of results and in caches, here or in the remote store."""
    store = settings.store
    roots = [*stored_experiments(store), *(store / name for name in SHARED)]
    files: dict[Path, tuple[int, int]] = {}
    for path in (path for root in roots for path in root.rglob("*")):
        with suppress(FileNotFoundError):  # gone since it was listed
            status = path.stat()
            if path.is_file() or not any(path.iterdir()):
                files[path] = (status.st_size, status.st_mtime_ns)
    names = {root.name for root in roots}
    for name, listed in settings.remote.listing.items() if settings.remote is not None else ():
        if name.partition("/")[0] in names:
            files[store / name] = (listed.size, listed.modified)
    by_path: dict[Path, Item] = {}
    for path, (n_bytes, written) in files.items():
        parts = path.relative_to(store).parts
        kind, depth = _kind_of(parts)
        owner = store.joinpath(*parts[:depth])
        experiment = parts[0] if parts[0] not in SHARED else ""
        item = by_path.get(owner) or Item(owner, kind, 0, 0, experiment)
        size, modified = item.size + n_bytes, max(item.modified, written)
        by_path[owner] = replace(item, size=size, modified=modified)
    return sorted(by_path.values(), key=lambda item: item.path)


def _kind_of(parts: tuple[str, ...]) -> tuple[str, int]:
    """Return what a file is, or belongs to, and how many parts of its name are that one's."""
    for depth, part in enumerate(parts, 1):
        if TEMPORARY_MARK in part:
            return TEMPORARY, depth
    if len(parts) < 3:
        return OTHER, len(parts)
    if parts[0] == OBJECTS:
        return parts[1], 3
    if parts[0] in SHARED:
        return f"{CACHE}/{parts[1]}" if parts[0] == CACHE else parts[0], len(parts)
    return {FOLDER: SNAPSHOTS, HISTORY_DIR: HISTORY_DIR}.get(parts[1], OTHER), len(parts)


Names = dict[Path | str, set[str]]
"""What snapshots name: paths, and first digits of fingerprints for measurements -> by whom."""


def _add_names(names: Names, store: Path, evaluation: Evaluation) -> None:
    for entry in (*evaluation.entries, *evaluation.rankings):
        for name in (store / entry.path, entry.fingerprint[:16]):
            names.setdefault(name, set()).add(evaluation.experiment)


def _named_by(names: Names, item: Item) -> set[str]:
    """Return the experiments that name an item."""
    return names.get(item.path.name[:16] if item.kind == MEASUREMENTS else item.path, set())


def _snapshots(store: Path) -> Iterator[tuple[Path, Evaluation]]:
    """Yield all snapshots with the folders of their experiments, of each the oldest first."""
    for root in stored_experiments(store):
        for name in snapshot_ids(root):
            yield root, read_evaluation(snapshot_file(root, name))


def removable(
    settings: StoreSettings,
    older_than: timedelta | None,
    *,
    orphans: bool,
    cache_age: timedelta | None = None,
    experiment: str | None = None,
    now: datetime | None = None,
) -> list[Item]:
    """Return what may go, each with the reason; snapshots first: none then names what is gone.

    Args:
        settings: the store; of a remote one, the records of all experiments were brought.
        older_than: snapshots of evaluations that began longer ago, and what they alone name; None:
            no snapshot.
        orphans: also what no snapshot names, and unfinished files.
        cache_age: also entries of caches that were stored longer ago; None: none of them.
        experiment: only snapshots of this one, what they alone name, and what lies in its folder.
        now: the present, in UTC.
    """
    now = now or datetime.now(UTC)
    store = settings.store
    needed: Names = {}
    gone: Names = {}
    outdated: set[Path] = set()
    for root, evaluation in _snapshots(store):
        began = datetime.fromisoformat(evaluation.started)
        is_old = older_than is not None and began < now - older_than
        pinned = {pointed(root / name) for name in (CURRENT, ANCHOR)}
        if is_old and experiment in (None, root.name) and evaluation.evaluation_id not in pinned:
            outdated.add(snapshot_file(root, evaluation.evaluation_id))
            _add_names(gone, store, evaluation)
        else:
            _add_names(needed, store, evaluation)
    garbage: list[Item] = []
    for item in items(settings):
        written = datetime.fromtimestamp(item.modified / 1e9, UTC)
        if item.path in outdated:
            garbage.insert(0, replace(item, reason="older"))
        elif item.is_cached:
            if cache_age is not None and written < now - cache_age:
                garbage.append(replace(item, reason="older"))
        elif item.kind in (SNAPSHOTS, HISTORY_DIR, OTHER) or _named_by(needed, item):
            continue
        elif owners := _named_by(gone, item):
            by = ", ".join(sorted(owners))
            garbage.append(replace(item, experiment=by, reason="only older name it"))
        elif orphans and experiment in (None, item.experiment) and written < now - SPARED:
            is_unfinished = item.kind == TEMPORARY
            reason = "never finished" if is_unfinished else "no snapshot names it"
            garbage.append(replace(item, reason=reason))
    return garbage


def fragments_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return what is looked for: at most :data:`MAX_FRAGMENTS` fragments of each text."""
    return tuple(sorted({piece for text in texts for piece in _pieces(text)}))


def _pieces(text: str) -> list[str]:
    """Return fragments of a text, spread over all of it."""
    runs = [run.strip() for run in re.split(r"[\"'\\\x00-\x1f<>&]", text)]
    for shortest in _MIN_CHARACTERS:
        pieces = [run[:_MAX_CHARACTERS].strip() for run in runs if len(run) >= shortest]
        if pieces:
            places = np.linspace(0, len(pieces) - 1, min(len(pieces), MAX_FRAGMENTS)).round()
            return [pieces[int(place)] for place in places]
    return []


def holds_any(path: Path, fragments: Iterable[str]) -> bool:
    """Return whether a file holds any fragment; one that cannot be read as Parquet, as bytes."""
    once = [json.dumps(text)[1:-1] for text in fragments]
    forms = {*fragments, *once, *(json.dumps(text)[1:-1] for text in once)}

    def is_in(content: bytes | memoryview) -> bool:
        column = pa.chunked_array([pa.array([bytes(content)], pa.large_binary())])
        return bool(pc.any(_matches(column, forms)).as_py())

    with suppress(OSError, pa.ArrowException):
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                # As they lie in memory, texts of lists and structures are whole.
                batches = (part.serialize() for part in file.iter_batches(batch_size=10_000))
                metadata = (file.schema_arrow.metadata or {}).values()
                return any(is_in(memoryview(part)) for part in (*metadata, *batches))
    return is_in(path.read_bytes())


def _matches(column: pa.ChunkedArray, texts: Iterable[str]) -> pa.ChunkedArray:
    """Return of each value of a column whether it holds any of some texts."""
    matches = pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.bool_))])
    literals = [rf"\Q{text}\E" for text in sorted(texts)]
    for start in range(0, len(literals), _GROUP):
        group = pc.match_substring_regex(column, "|".join(literals[start : start + _GROUP]))
        matches = pc.or_(matches, pc.fill_null(group, False))
    return matches


@dataclass(frozen=True)
class Forgotten:
    """Everything that holds a text.

    Attributes:
        files: artifacts and other files, in the order in which they go.
        replies: cache file -> of each of its rows whether it goes.
        sources: experiment -> source, of those that name or hold any of the files.
        kept: snapshots and files of the history in which a piece of the text stands.
    """

    files: tuple[Item, ...]
    replies: Mapping[Item, pa.BooleanArray]
    sources: Mapping[str, str]
    kept: tuple[Path, ...]

    @property
    def items(self) -> list[Item]:
        """All that goes; of a file of replies, the share of its bytes that they have."""
        shares = [(file, pc.mean(rows).as_py()) for file, rows in self.replies.items()]
        replies = (replace(file, size=round(file.size * share)) for file, share in shares)
        return [*self.files, *(replace(file, reason="holds the text") for file in replies)]

    def remove(self, settings: StoreSettings) -> None:
        """Remove it all; the documents go last."""
        partly = [entry for entry in self.replies.items() if not pc.all(entry[1]).as_py()]
        rest = [write_without(file.path, rows) for file, rows in partly]
        if settings.remote is not None:
            settings.remote.send(rest)
        settings.remove(file.path for file in self.replies)
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
    names: Names = {}
    sources = {}
    for root, evaluation in _snapshots(settings.store):
        _add_names(names, settings.store, evaluation)
        sources[root.name] = evaluation.source
    contents = items(settings)
    owners = {item.path: {item.experiment} - {""} | _named_by(names, item) for item in contents}
    texts = {text} if text else set()
    for item in contents:
        is_whose = document_id is not None and (
            experiment is None or experiment in owners[item.path]
        )
        for table in _table(item.path / TABLE) if item.kind in LAST and is_whose else ():
            chosen = table.filter(pc.equal(table["document_id"], document_id))
            texts.update(chosen["text"].to_pylist())
    if not texts:
        return None
    fragments = fragments_of(texts.union(*(_cut_from(item, texts) for item in contents)))
    manifests = {item.path: read_manifest(item.path) for item in contents}
    holding = {item.path for item in contents if _holds(item, fragments)}
    made = _made_from(holding, manifests)
    files = []
    for item in contents:
        is_unreadable = manifests[item.path] is None
        is_made = item.kind in MADE_OF_TEXTS and (item.path in made or is_unreadable)
        if item.path in holding or is_made:
            by = ", ".join(sorted(owners[item.path]))
            files.append(replace(item, experiment=by, reason="holds the text"))
    held = dict(_replies(contents, fragments))
    replies = {item: rows for item, rows in held.items() if rows is not None}
    if files or replies:
        # They have hashes for names, so nobody can say which are of the text.
        vectors = [item for item in contents if item.kind in VECTORS]
        files += [replace(item, reason="may be of the text") for item in vectors]
    damaged = (item for item, rows in held.items() if rows is None)
    files += [replace(item, reason="cannot be read, may hold the text") for item in damaged]
    files.sort(key=lambda item: LAST.index(item.kind) if item.kind in LAST else -1)
    touched = set().union(*(owners[item.path] for item in files))
    in_kept = (item.path for item in contents if item.kind in (SNAPSHOTS, HISTORY_DIR))
    return Forgotten(
        (*_dagster(settings), *files),
        replies,
        {name: source for name, source in sources.items() if name in touched},
        tuple(path for path in in_kept if holds_any(path, fragments)),
    )


def _table(file: Path, *columns: str) -> list[pa.Table]:
    """Return a table of texts, or some columns of it; nothing if it is damaged."""
    try:
        return [read_parquet(file, columns or None)]
    except (OSError, pa.ArrowException):
        return []


def _cut_from(item: Item, texts: set[str]) -> Iterator[str]:
    """Yield the chunks of a table of chunks that were cut from one of the texts."""
    for table in _table(item.path / TABLE) if item.kind == "chunks" else ():
        for chunk in table["text"].to_pylist():
            if any(chunk in text for text in texts):
                yield chunk


def _holds(item: Item, fragments: tuple[str, ...]) -> bool:
    """Return whether a file or artifact holds a fragment; what was never finished may."""
    if item.is_cached or item.kind in (SNAPSHOTS, HISTORY_DIR):
        return False
    files = item.path.rglob("*") if item.path.is_dir() else [item.path]
    return item.kind == TEMPORARY or any(holds_any(f, fragments) for f in files if f.is_file())


def _made_from(paths: Iterable[Path], manifests: Mapping[Path, Manifest | None]) -> set[Path]:
    """Return artifacts, and all that was made from them through any others."""
    made = set(paths)
    while True:
        manifests_made = (manifests[path] for path in made)
        digests = {d for m in manifests_made if m is not None for d in m.digests.values()}
        below = {p for p, m in manifests.items() if m and not digests.isdisjoint(m.inputs.values())}
        if below <= made:
            return made
        made |= below


def _replies(
    contents: Iterable[Item], fragments: tuple[str, ...]
) -> Iterator[tuple[Item, pa.BooleanArray | None]]:
    """Yield the files of replies in which some hold a fragment, and which; None: unreadable."""
    for item in contents:
        if item.kind != REPLIES or item.path.suffix != ".parquet":
            continue
        if not (tables := _table(item.path, "request", "text")):
            yield item, None
        for table in tables:
            matches = (_matches(column, fragments) for column in table.columns)
            rows = pc.or_(*matches).combine_chunks()
            if pc.any(rows).as_py():
                yield item, rows


def _dagster(settings: StoreSettings) -> list[Item]:
    """Return the store's Dagster instance: it shows first rows, and nobody can search it."""
    home = settings.dagster_home
    if settings.has_dagster_home or not any((home / "rag_assets").glob("*.json")):
        return []
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return [Item(home, "Dagster instance", size, reason="may show the text")]
