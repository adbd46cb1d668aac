"""Finds everything in a store that holds a text, and removes it.

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
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_assets.pipeline.cleaning import (
    SNAPSHOTS,
    TEMPORARY,
    Item,
    Names,
    add_names,
    items,
    named_by,
    snapshots,
)
from rag_assets.pipeline.evaluations import HISTORY_DIR
from rag_assets.store.artifacts import Manifest, read_manifest
from rag_assets.store.atomic import TABLE
from rag_assets.store.content_cache import BY_TEXT, CACHE, COMPLETIONS, write_without
from rag_assets.store.parquet_files import read_parquet
from rag_assets.store.settings import StoreSettings

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

RECORDS = (SNAPSHOTS, HISTORY_DIR)
"""Kinds that stay, whatever they hold."""

REPLIES = f"{CACHE}/{COMPLETIONS}"
VECTORS = frozenset(f"{CACHE}/{name}" for name in BY_TEXT)
"""Kinds of caches."""

HOLDS = "holds the text"
"""Why most of it goes."""

MAX_FRAGMENTS = 8
"""So many fragments of one text are looked for: the first, the last, and some between."""

_MAX_CHARACTERS = 60
_MIN_CHARACTERS = (24, 8, 3)
"""Of a fragment; shorter ones are taken where a text has no longer one."""

_GROUP = 32
"""So many fragments make one regular expression: RE2 is many times slower with hundreds."""

Rows = npt.NDArray[np.bool_]
"""Of each row of a file, whether it holds a fragment."""

WHOLE: Rows = np.ones(1, np.bool_)
"""For what goes as one."""


def fragments_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return at most :data:`MAX_FRAGMENTS` fragments of each text, spread over all of it.

    Each as it is, as it stands in JSON, and in JSON inside JSON.
    """
    plain: set[str] = set()
    for text in texts:
        runs = [run.strip() for run in re.split(r"[\"'\\\x00-\x1f<>&]", text)]
        by_length = ([run for run in runs if len(run) >= shortest] for shortest in _MIN_CHARACTERS)
        longest = next(filter(None, by_length), [])
        places = np.linspace(0, len(longest) - 1, min(len(longest), MAX_FRAGMENTS)).round()
        plain.update(longest[int(place)][:_MAX_CHARACTERS].strip() for place in places)
    once = {json.dumps(piece)[1:-1] for piece in plain}
    return tuple(sorted(plain | once | {json.dumps(piece)[1:-1] for piece in once}))


def holds_any(path: Path, fragments: Iterable[str]) -> bool:
    """Return whether a file holds any fragment; one that cannot be read as Parquet, as bytes."""

    def is_in(content: bytes | memoryview) -> bool:
        return bool(_matches(pa.array([content], pa.large_binary()), fragments).any())

    with suppress(OSError, pa.ArrowException), pq.ParquetFile(path) as file:
        # As they lie in memory, texts of lists and structures are whole.
        parts = chain([file.schema_arrow], file.iter_batches(batch_size=10_000))
        return any(is_in(memoryview(part.serialize())) for part in parts)
    return is_in(path.read_bytes())


def _matches(column: pa.Array | pa.ChunkedArray, fragments: Iterable[str]) -> Rows:
    """Return of each value of a column whether it holds any fragment."""
    matches = np.zeros(len(column), dtype=np.bool_)
    literals = [rf"\Q{fragment}\E" for fragment in fragments]
    for start in range(0, len(literals), _GROUP):
        group = pc.match_substring_regex(column, "|".join(literals[start : start + _GROUP]))
        matches |= np.asarray(pc.fill_null(group, False))
    return matches


@dataclass(frozen=True)
class Forgotten:
    """Everything that holds a text.

    Attributes:
        items: what goes; of a file of replies, the bytes of those that go.
        replies: such a file, where some stay -> of each of its rows whether it goes.
        sources: experiment -> source, of those that name or hold any of the items.
        kept: snapshots and files of the history in which a piece of the text stands.
    """

    items: Sequence[Item]
    replies: Mapping[Path, Rows]
    sources: Mapping[str, str]
    kept: Sequence[Path]

    def remove(self, settings: StoreSettings) -> None:
        """Remove it all; the documents go last."""
        rest = [write_without(path, rows) for path, rows in self.replies.items()]
        if settings.remote is not None:
            settings.remote.send(rest)
        for is_last in (False, True):
            settings.remove(item.path for item in self.items if (item.kind in LAST) is is_last)


def to_forget(
    settings: StoreSettings,
    document_id: str | None = None,
    text: str | None = None,
    experiment: str | None = None,
) -> Forgotten | None:
    """Return what holds the text of a document, or another text, in all experiments of a store.

    Of a remote store, everything is fetched. ``experiment`` says whose document it is; None: that
    of any which has one of this id.

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
    for root, evaluation in snapshots(settings.store):
        add_names(names, settings.store, evaluation)
        sources[root.name] = evaluation.source
    contents = items(settings)
    owners = {item.path: {item.experiment} - {""} | named_by(names, item) for item in contents}
    theirs = (item for item in contents if experiment in {None, *owners[item.path]})
    texts = {text} if text else set()
    for table in _tables(theirs, LAST) if document_id is not None else ():
        texts.update(table.filter(pc.equal(table["document_id"], document_id))["text"].to_pylist())
    if not texts:
        return None
    for table in _tables(contents, ("chunks",)):
        chunks = table["text"].to_pylist()
        texts |= {chunk for chunk in chunks if any(chunk in whole for whole in texts)}
    fragments = fragments_of(texts)
    manifests = {i.path: m for i in contents if (m := read_manifest(i.path)) is not None}
    searched = {item.path: _search(item, manifests, fragments) for item in contents}
    holding = {path for path, (rows, _) in searched.items() if rows.any()}
    replies = {path: searched[path][0] for path in holding if not searched[path][0].all()}
    made = _made_from(holding, manifests)
    gone = [
        replace(
            item,
            size=round(item.size * replies.get(item.path, WHOLE).mean()),
            experiment=", ".join(sorted(owners[item.path])),
            reason=searched[item.path][1],
        )
        for item in contents
        if item.path in (made if item.kind in MADE_OF_TEXTS else holding)
        and item.kind not in RECORDS
    ]
    if any(item.reason == HOLDS for item in gone):
        # They have hashes for names, so nobody can say which are of the text.
        vectors = (item for item in contents if item.kind in VECTORS)
        gone += [replace(item, reason="may be of the text") for item in vectors]
    gone.sort(key=lambda item: LAST.index(item.kind) if item.kind in LAST else -1)
    touched = set().union(*(owners[item.path] for item in gone))
    return Forgotten(
        [*_dagster(settings), *gone],
        replies,
        {name: source for name, source in sources.items() if name in touched},
        [item.path for item in contents if item.kind in RECORDS and item.path in holding],
    )


def _tables(contents: Iterable[Item], kinds: Container[str]) -> Iterator[pa.Table]:
    """Yield the ids of documents and the texts of each table of some kinds that is not damaged."""
    for item in contents:
        if item.kind in kinds:
            with suppress(OSError, pa.ArrowException):
                yield read_parquet(item.path / TABLE, ["document_id", "text"])


def _search(item: Item, manifests: Container[Path], fragments: tuple[str, ...]) -> tuple[Rows, str]:
    """Return which rows of an item go, or whether it does as a whole, and the reason."""
    if item.kind == REPLIES and item.path.suffix == ".parquet":
        try:
            table = read_parquet(item.path, ["request", "text"])
        except (OSError, pa.ArrowException):
            return WHOLE, "cannot be read, may hold the text"
        return np.any([_matches(column, fragments) for column in table.columns], axis=0), HOLDS
    is_torn = item.kind in MADE_OF_TEXTS and item.path not in manifests
    files = () if item.is_cached else (item.path, *item.path.rglob("*"))
    is_in = (holds_any(file, fragments) for file in files if file.is_file())
    return np.array([item.kind == TEMPORARY or is_torn or any(is_in)]), HOLDS


def _made_from(paths: set[Path], manifests: Mapping[Path, Manifest]) -> set[Path]:
    """Return artifacts, and all that was made from them through any others."""
    digests = {d for path, m in manifests.items() if path in paths for d in m.digests.values()}
    below = {path for path, m in manifests.items() if not digests.isdisjoint(m.inputs.values())}
    return paths if below <= paths else _made_from(paths | below, manifests)


def _dagster(settings: StoreSettings) -> list[Item]:
    """Return the store's Dagster instance: it shows first rows, and nobody can search it."""
    home = settings.dagster_home
    if settings.has_dagster_home or not any((home / "rag_assets").glob("*.json")):
        return []
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return [Item(home, "Dagster instance", size, reason="may show the text")]
