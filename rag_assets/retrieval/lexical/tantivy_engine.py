"""BM25 by tantivy, a search library in Rust after the model of Lucene; needs the extra ``tantivy``.

It computes the variant ``lucene_lossy``. With the symbols of
:mod:`rag_assets.retrieval.lexical.builtin_engine`::

    score(q, d) = sum over t in q of (k1 + 1) * idf(t) * f(t, d)
                                     / (f(t, d) + k1 * (1 - b + b * lossy(|d|) / avgdl))
    idf(t)      = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))

k1 is 1.2 and b is 0.75; tantivy has no other. ``lossy`` is the length as one byte keeps it, in
Lucene as in tantivy: below 40 it is exact, above it is the next lower of 24 + m * 2 ** e with m
from 8 to 15, so that it loses less than an eighth; avgdl is the mean of the exact lengths. What a
token adds is a float32, the sum is formed in float64 and kept as a float32: the scores are those of
``builtin``, with the lossy lengths and times 2.2, to some 1e-7 of their size, and equal chunks have
equal scores. Only the idf of a token in nearly all chunks is less exact: the sum under its
logarithm is a float32 too, so that an idf is off by up to 6e-8, and in millions of chunks may be 0.
A token that is repeated in the query counts as often as it occurs.

The tokens are those of our analyzers, which tantivy only splits at blanks. It would drop a token of
more than 65,530 bytes, and cut one that holds white space (NFKC makes some of a few Arabic
ligatures): these are indexed and searched for by their SHA-256.

The files are an index of tantivy: ``tantivy.Index.open(folder)`` opens the folder. tantivy names
them by random numbers; here they are named 1, 2, ... instead, also in its ``meta.json``. One thread
writes one segment as long as the index of the tokens takes less than :data:`HEAP` bytes of memory:
then the same chunks give the same files, byte for byte. Beyond it there are several segments, with
the same scores, but how tantivy then merges them, and so the bytes, is not promised to repeat.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError, UsageError
from rag_assets.ordering import Hits, Positions, top_k
from rag_assets.retrieval.lexical.index_files import load_object, save_json

PACKAGE, EXTRA = "tantivy", "tantivy"
MISSING = f"engine tantivy needs the package {PACKAGE}: pip install 'rag-assets[{EXTRA}]'"

HEAP = 4_000_000_000
"""Bytes that the writer may take, near the most that tantivy allows; it takes what it needs."""

LONGEST = 16_000
"""Characters of the longest token that is indexed as it is: at most 64,000 bytes."""

TIES = 32
"""Hits that are fetched beyond the cut, for what is tied with it."""

_TOKENS, _NUMBER = "tokens", "number"
_META = "meta.json"
_FACTS = "tantivy.json"
_MARK = "\x1f"
"""Begins the digest of a token; white space to Python, so that no analyzer's token holds it."""


@dataclass(frozen=True, eq=False)
class TantivyEngine:
    """An opened index of tantivy.

    Attributes:
        folder: where its files lie; they are mapped, and needed again only by ``save``.
        searcher: tantivy's searcher.
        schema: tantivy's schema, which its queries are made with.
        n_chunks: number of chunks.
        vocabulary_size: number of distinct tokens.
    """

    folder: Path
    searcher: Any
    schema: Any
    n_chunks: int
    vocabulary_size: int

    @classmethod
    def build(cls, tokens: Iterable[list[str]], heap: int = HEAP) -> TantivyEngine:
        """Index the tokens of each chunk in a temporary folder, which goes with the engine.

        Raises:
            UsageError: the package ``tantivy`` is not installed.
        """
        folder = Path(tempfile.mkdtemp(prefix="rag-assets-tantivy-"))
        try:
            _write(folder, tokens, heap)
            engine = cls.load(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(engine, shutil.rmtree, folder, ignore_errors=True)
        return engine

    @classmethod
    def load(cls, folder: Path) -> TantivyEngine:
        """Open an index; its files are mapped.

        Raises:
            StoreError: a file is missing or damaged.
            UsageError: the package ``tantivy`` is not installed.
        """
        facts = load_object(folder / _FACTS, "chunks", "vocabulary")
        index = _opened(folder)
        return cls(folder, index.searcher(), index.schema, facts["chunks"], facts["vocabulary"])

    def save(self, folder: Path) -> None:
        """Write tantivy's files, and a JSON file of the numbers of chunks and tokens."""
        segments = json.loads((self.folder / _META).read_text(encoding="utf-8"))["segments"]
        stems = {uuid.UUID(segment["segment_id"]).hex for segment in segments}
        for file in sorted(self.folder.iterdir()):
            if file.name in (_META, _FACTS) or file.stem in stems:
                shutil.copyfile(file, folder / file.name)

    def scores(self, query_tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the score of every chunk, float64, shape (n_chunks,); 0 where no token occurs."""
        totals = np.zeros(self.n_chunks)
        hits = self._first(self._query(query_tokens), self.n_chunks)
        totals[hits.positions] = hits.scores
        return totals

    def best(self, queries: Iterable[Sequence[str]], ids_rank: Positions, k: int) -> Iterator[Hits]:
        """Yield for each query the ``k`` best chunks of those that score above 0.

        Raises:
            UsageError: ``k`` is below 1.
        """
        if k < 1:
            raise UsageError(f"k is {k}; it must be at least 1")
        for query in queries:
            hits = self._first_with_ties(self._query(query), k)
            best = top_k(hits.scores, ids_rank[hits.positions], k, above=0.0)
            yield Hits(hits.positions[best], hits.scores[best])

    def _first_with_ties(self, query: Any, k: int) -> Hits:  # noqa: ANN401
        """Return more than the first ``k`` hits: no other one is tied with the k-th.

        tantivy breaks ties by its own order.
        """
        n = k + TIES
        hits = self._first(query, n)
        while hits.scores.size == n and hits.scores[-1] == hits.scores[k - 1]:
            n *= 4
            hits = self._first(query, n)
        return hits

    def _query(self, tokens: Sequence[str]) -> Any:  # noqa: ANN401
        tantivy = _tantivy()
        word, should = tantivy.Query.term_query, tantivy.Occur.Should
        known = (word(self.schema, _TOKENS, _as_indexed(token), "freq") for token in tokens)
        return tantivy.Query.boolean_query([(should, each) for each in known])

    def _first(self, query: Any, n: int) -> Hits:  # noqa: ANN401
        """Return the ``n`` best hits in tantivy's order."""
        limit = min(n, self.n_chunks)
        found = self.searcher.search(query, limit, count=False).hits if limit else []
        numbers = self.searcher.fast_field_values(_NUMBER, [address for _, address in found])
        scores = np.array([score for score, _ in found], dtype=np.float64)
        return Hits(np.array(numbers, dtype=np.int64), scores)


class _Words(dict[str, str]):
    """Token -> what is indexed of it, for all that were asked for."""

    def __missing__(self, token: str) -> str:
        self[token] = indexed = _as_indexed(token)
        return indexed


def _as_indexed(token: str) -> str:
    if len(token) <= LONGEST and token.split() == [token]:
        return token
    return f"{_MARK}{hashlib.sha256(token.encode()).hexdigest()}"


def _write(folder: Path, tokens: Iterable[list[str]], heap: int) -> None:
    """Write an index whose files are named by their segments' numbers."""
    tantivy = _tantivy()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_TOKENS, tokenizer_name="whitespace", index_option="freq")
    schema.add_integer_field(_NUMBER, fast=True)
    words, n_chunks = _Words(), 0
    with tempfile.TemporaryDirectory(dir=folder) as own:
        writer = tantivy.Index(schema.build(), path=own).writer(heap, 1)
        for chunk in tokens:
            document = tantivy.Document()
            document.add_text(_TOKENS, " ".join(map(words.__getitem__, chunk)))
            document.add_integer(_NUMBER, n_chunks)
            writer.add_document(document)
            n_chunks += 1
        writer.commit()
        writer.wait_merging_threads()
        _move_named(Path(own), folder)
    save_json(folder / _FACTS, {"chunks": n_chunks, "vocabulary": len(words)})


def _move_named(own: Path, folder: Path) -> None:
    """Move the files of the segments that are in use, with 1, 2, ... in the place of their ids."""
    meta = (own / _META).read_text(encoding="utf-8")
    for number, segment in enumerate(json.loads(meta)["segments"], start=1):
        old, new = uuid.UUID(segment["segment_id"]), uuid.UUID(int=number)
        meta = meta.replace(str(old), str(new))
        for file in own.glob(f"{old.hex}.*"):
            file.rename(folder / file.name.replace(old.hex, new.hex))
    (folder / _META).write_text(meta, encoding="utf-8")


def _opened(folder: Path) -> Any:  # noqa: ANN401
    """Return tantivy's index, opened by links: it puts the file of a lock where it opens one."""
    tantivy = _tantivy()
    # A thread of tantivy may still write its lock there; what is left is a folder of links.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as links:
        for file in folder.iterdir():
            (Path(links) / file.name).symlink_to(file.resolve())
        try:
            index = tantivy.Index.open(links)
            index.config_reader("manual")  # else it would go on watching the folder
        except ValueError as error:
            what = " ".join(str(error).replace(links, str(folder)).split())
            raise StoreError(f"{folder}: index of tantivy cannot be read: {what}") from error
    return index


def _tantivy() -> Any:  # noqa: ANN401
    try:
        import tantivy
    except ImportError as error:
        raise UsageError(MISSING) from error
    return tantivy
