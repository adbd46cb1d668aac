"""Documents that hold the same text, or nearly, and queries that ask the same.

Similarity is Jaccard's: shared shingles (hashed five-word windows) / all shingles of the two. With
the n shingles of a text in the order of their frequency in all texts, two texts whose similarity is
at least t share one of their first n - ceil(t n) + 1 (Chaudhuri, Ganti and Kaushik 2006, "A
primitive operator for similarity joins in data cleaning"). So only pairs that share such a one are
compared, exactly, and none is missed.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_assets.labels.findings import WARNING, Finding
from rag_assets.schemas import column_values
from rag_assets.sources.fields import shown
from rag_assets.store.large_tables import Ids

THRESHOLD = 0.8
ALL_PAIRS_UP_TO = 50
"""Of more texts that share a shingle each is compared with the first 50, not with every other."""

WINDOW = 5
"""Words of a shingle."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.cumprod(np.full(WINDOW, _FACTOR))[::-1]
_WORD = re.compile(r"[^\W_]+")


class Pair(NamedTuple):
    """Two rows of the documents, the first smaller, and their similarity."""

    first: int
    second: int
    similarity: float


def near_duplicates(texts: pa.ChunkedArray, threshold: float = THRESHOLD) -> list[Pair]:
    """Return the pairs of texts at least as similar as ``threshold``, sorted by their rows.

    Equal texts are pairs of similarity 1. In a group of more than 50 alike texts each is paired
    with some of the others, not with all. ``threshold`` is above 0, at most 1.
    """
    sets = {row: hashes for row, hashes in enumerate(shingles(texts)) if len(hashes)}
    pairs = {pair for bucket in _buckets(sets, threshold) for pair in _pairs(bucket)}
    compared = (Pair(a, b, _jaccard(sets[a], sets[b])) for a, b in sorted(pairs))
    return [pair for pair in compared if pair.similarity >= threshold]


def shingles(texts: pa.ChunkedArray) -> Iterator[np.ndarray]:
    """Yield the different shingles of each text: windows of five words in lower case, hashed.

    A text of fewer words is one shingle; a text without words has none.
    """
    hashes: dict[str, int] = {}
    for chunk in texts.chunks:
        for text in chunk.to_pylist():
            words = _WORD.findall(text.lower())
            for word in words:
                if word not in hashes:
                    digest = blake2b(word.encode(), digest_size=8).digest()
                    hashes[word] = int.from_bytes(digest, "little")
            numbers = np.array([hashes[word] for word in words], np.uint64)
            if 0 < len(numbers) < WINDOW:
                numbers = np.append(numbers, np.zeros(WINDOW - len(numbers), np.uint64))
            if len(numbers):
                windows = np.lib.stride_tricks.sliding_window_view(numbers, WINDOW)
                numbers = (windows * _POWERS).sum(axis=1, dtype=np.uint64)
            yield np.unique(numbers)


def _buckets(sets: Mapping[int, np.ndarray], threshold: float) -> Iterator[list[int]]:
    """Yield the rows of several texts that share one of their rarest shingles."""
    if not sets:
        return
    every = np.concatenate(list(sets.values()))
    _, numbers, counts = np.unique(every, return_inverse=True, return_counts=True)
    edges = np.cumsum([len(hashes) for hashes in sets.values()])[:-1]
    prefixes = []
    for hashes, frequency in zip(sets.values(), np.split(counts[numbers], edges), strict=True):
        n = len(hashes) - math.ceil(threshold * len(hashes) - 1e-9) + 1
        rarest = np.argsort(frequency, kind="stable")[:n]
        prefixes.append(hashes[rarest[frequency[rarest] > 1]])
    keys = np.concatenate(prefixes)
    rows = np.repeat(list(sets), [len(prefix) for prefix in prefixes])
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    yield from (bucket.tolist() for bucket in np.split(rows[order], edges) if len(bucket) > 1)


def _pairs(bucket: Sequence[int]) -> Iterator[tuple[int, int]]:
    hubs, rest = bucket[:ALL_PAIRS_UP_TO], bucket[ALL_PAIRS_UP_TO:]
    yield from combinations(hubs, 2)
    yield from product(hubs, rest)


def _jaccard(a: np.ndarray, b: np.ndarray) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)


DUPLICATE_DOCUMENT = "duplicate_document"
NEAR = "near_duplicate_document"
DUPLICATE_QUERY = "duplicate_query"
CONFLICT = "conflicting_queries"
UNJUDGED = "unjudged_twin"


def duplicate_documents(documents: pa.Table) -> list[Finding]:
    """Return a warning for each document whose text, but for white space, an earlier one has.

    Titles do not count, and blank texts are passed over.
    """
    texts = Ids(documents["text"])
    alike = _repeated(map(_outer_words, texts), len(texts)).tolist()
    rows = _repeated((_squeezed(texts[row]) for row in alike), len(alike)).tolist()
    firsts, pairs = dict[str, int](), list[tuple[int, int]]()
    for row in (alike[place] for place in rows):  # texts of equal hashes may differ
        text = _squeezed(texts[row])
        first = firsts.setdefault(text, row)
        if text and first < row:
            pairs.append((first, row))
    ids = documents["document_id"]
    names = ((ids[first].as_py(), ids[row].as_py()) for first, row in sorted(pairs))
    return [
        Finding(WARNING, DUPLICATE_DOCUMENT, f"has the same text as {shown(first)}", None, other)
        for first, other in names
    ]


def _repeated(values: Iterable[Hashable], n: int) -> npt.NDArray[np.intp]:
    """Return the places of those of ``n`` values whose hash another has."""
    hashes = np.fromiter(map(hash, values), np.int64, n)
    _, numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[numbers] > 1)


def _outer_words(text: str) -> tuple[str, ...]:
    """Return the first and the last words of a text: to split all of it takes twice as long."""
    return (*text.split(None, 4)[:4], *text.rsplit(None, 2)[1:])


def _squeezed(text: str) -> str:
    """Return a text with one blank between words."""
    return " ".join(text.split())


def near_duplicate_documents(documents: pa.Table, pairs: Sequence[Pair]) -> list[Finding]:
    """Return a warning for each document that nearly equals an earlier one, by pairs of its rows.

    Equal texts are left to :func:`duplicate_documents`.
    """
    ids, texts = Ids(documents.column("document_id")), Ids(documents.column("text"))
    best: dict[int, Pair] = {}
    for pair in pairs:
        if pair.second not in best or pair.similarity > best[pair.second].similarity:
            best[pair.second] = pair
    findings: list[Finding] = []
    for pair in best.values():
        if _squeezed(texts[pair.first]) != _squeezed(texts[pair.second]):
            first, second = ids[pair.first], ids[pair.second]
            message = f"is nearly {shown(first)}: {pair.similarity:.0%} of their word windows agree"
            findings.append(Finding(WARNING, NEAR, message, document_id=second))
    return findings


def unjudged_twins(qrels: pa.Table, documents: pa.Table, pairs: Sequence[Pair]) -> list[Finding]:
    """Return a warning for each query and each unjudged near-duplicate of a relevant document.

    Where the judgment is a span, the twin must hold its text to the character. ``pairs`` are rows
    of the documents.
    """
    ids, texts = documents.column("document_id").to_pylist(), documents.column("text")
    twins: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for first, second, similarity in pairs:
        twins[ids[first]].append((first, second, similarity))
        twins[ids[second]].append((second, first, similarity))
    labels = qrels.to_pylist()
    judged = {(label["query_id"], label["document_id"]) for label in labels}
    findings: dict[tuple[str, str], Finding] = {}
    for label in (label for label in labels if label["grade"] > 0):
        relevant = label["document_id"]
        for row, twin, similarity in twins.get(relevant, ()):
            pair = (label["query_id"], ids[twin])
            quote = texts[row].as_py()[label["start"] : label["end"] or 0]  # "" without a span
            if pair in judged or pair in findings or quote not in texts[twin].as_py():
                continue
            like = f"is not judged, but {similarity:.0%} like {shown(relevant)}, which is relevant"
            message = f"{like}; it counts as not relevant"
            findings[pair] = Finding(WARNING, UNJUDGED, message, *pair, label["evidence_id"])
    return list(findings.values())


def duplicate_queries(queries: pa.Table, qrels: pa.Table) -> list[Finding]:
    """Return a warning for each query whose text another one has, but for case and white space.

    ``duplicate_query``: their judgments are the same, so the question counts twice.
    ``conflicting_queries``: their judgments differ, so no ranking can satisfy both.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for query_id, text in column_values(queries, "query_id", "text"):
        groups[" ".join(text.split()).casefold()].append(query_id)
    judged, findings = _judgments(qrels), list[Finding]()
    for text, (first, *others) in groups.items():
        for other in others if text else ():
            same = judged.get(first) == judged.get(other)
            how = ", with the same judgments" if same else ", but its judgments differ"
            message = f"asks the same as query {shown(first)}{how}"
            check = DUPLICATE_QUERY if same else CONFLICT
            findings.append(Finding(WARNING, check, message, other))
    return findings


def _judgments(qrels: pa.Table) -> dict[str, frozenset[frozenset[tuple[object, ...]]]]:
    """Return the evidences of each query, whatever they are called."""
    by_query: dict[str, dict[str, set[tuple[object, ...]]]] = defaultdict(lambda: defaultdict(set))
    names = ("query_id", "evidence_id", "document_id", "start", "end", "grade")
    for query, evidence, *rest in column_values(qrels, *names):
        by_query[query][evidence].add(tuple(rest))
    return {query: frozenset(map(frozenset, rows.values())) for query, rows in by_query.items()}
