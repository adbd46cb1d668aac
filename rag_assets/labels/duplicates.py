"""Documents that hold the same text, or nearly, and queries that ask the same.

Similarity is Jaccard's: shared shingles (hashed five-word windows) / all shingles of the two.
Candidates come from MinHash (Broder 1997) with banding (Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, section 3.4): 64 hash values a document in 16 bands of 4. A pair of similarity s
shares a band with the chance 1 - (1 - s^4)^16: 0.9998 at 0.8, so about one pair in 5,000 is missed
there, and fewer above. Every candidate is then compared exactly, so no reported pair is wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_assets.labels.findings import WARNING, Finding, findings_table
from rag_assets.sources.fields import shown

THRESHOLD = 0.8
BANDS = 16
ROWS = 4

ALL_PAIRS_UP_TO = 50
"""In a larger bucket each document is compared with the first 50 only, not with every other."""

WINDOW = 5
"""Words of a shingle."""

_SEED = 20_250_101
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
    with some of the others, not with all.

    Args:
        texts: one text a document.
        threshold: between 0 and 1; below 0.8 more and more pairs are missed.
    """
    sets = {row: own for row, own in enumerate(shingles(texts)) if len(own)}
    if len(sets) < 2:
        return []
    rows = list(sets)
    pairs = {
        tuple(sorted((rows[first], rows[second])))
        for first, second in _candidates(_signatures(list(sets.values())))
    }
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


def _signatures(sets: Sequence[np.ndarray]) -> np.ndarray:
    """Return 64 minima a document, each under another hash function."""
    random = np.random.default_rng(_SEED)
    factors = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = random.integers(0, 2**63, BANDS * ROWS, dtype=np.uint64)
    starts = np.cumsum([0, *map(len, sets[:-1])])
    hashes = np.concatenate(sets)
    mixed = hashes ^ (hashes >> np.uint64(25))
    signatures = np.empty((BANDS * ROWS, len(sets)), np.uint32)
    for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
        # Multiply-shift: the upper half of the product is a random function of the shingle.
        values = ((mixed * factor + offset) >> np.uint64(32)).astype(np.uint32)
        signatures[number] = np.minimum.reduceat(values, starts)
    return signatures


def _candidates(signatures: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the pairs that share a band."""
    for band in signatures.reshape(BANDS, ROWS, -1):
        buckets: dict[bytes, list[int]] = {}
        for number, column in enumerate(np.ascontiguousarray(band.T)):
            buckets.setdefault(column.tobytes(), []).append(number)
        for bucket in buckets.values():
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

_WORDS = 8
"""Words by which texts are told apart first."""


def duplicate_documents(documents: pa.Table) -> pa.Table:
    """Return a warning for each document whose text, but for white space, an earlier one has.

    Titles do not count, and blank texts are passed over.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    # Most texts differ in their first words, and are not split as a whole; and of a large corpus
    # one text is held at a time, unless its beginning is that of another.
    rows: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(text for chunk in texts.chunks for text in chunk.to_pylist()):
        rows[hash(tuple(text.split(None, _WORDS)[:_WORDS]))].append(row)
    alike = sorted(row for same in rows.values() if len(same) > 1 for row in same)
    groups: dict[str, list[str]] = defaultdict(list)
    for row in alike:
        groups[_words(texts[row])].append(ids[row].as_py())
    return findings_table(
        Finding(WARNING, DUPLICATE_DOCUMENT, f"has the same text as {shown(first)}", None, other)
        for text, (first, *others) in groups.items()
        for other in others
        if text
    )


def _words(text: pa.StringScalar) -> str:
    """Return a text with one blank between words."""
    return " ".join(text.as_py().split())


def near_duplicate_documents(documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
    """Return a warning for each document that nearly equals an earlier one, by pairs of its rows.

    Equal texts are left to :func:`duplicate_documents`.
    """
    ids, texts = documents.column("document_id"), documents.column("text")
    best: dict[int, Pair] = {}
    for pair in pairs:
        if pair.second not in best or pair.similarity > best[pair.second].similarity:
            best[pair.second] = pair
    findings = []
    for pair in best.values():
        if _words(texts[pair.first]) != _words(texts[pair.second]):
            first, second = ids[pair.first].as_py(), ids[pair.second].as_py()
            message = f"is nearly {shown(first)}: {pair.similarity:.0%} of their word windows agree"
            findings.append(Finding(WARNING, NEAR, message, document_id=second))
    return findings_table(findings)


def unjudged_twins(qrels: pa.Table, documents: pa.Table, pairs: Sequence[Pair]) -> pa.Table:
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
            quote = ""
            if label["start"] is not None:
                quote = texts[row].as_py()[label["start"] : label["end"]]
            if pair in judged or pair in findings or quote not in texts[twin].as_py():
                continue
            message = (
                f"is not judged, but {similarity:.0%} like {shown(relevant)}, which is relevant; "
                "it counts as not relevant"
            )
            findings[pair] = Finding(WARNING, UNJUDGED, message, *pair, label["evidence_id"])
    return findings_table(findings.values())


def duplicate_queries(queries: pa.Table, qrels: pa.Table) -> pa.Table:
    """Return a warning for each query whose text another one has, but for case and white space.

    ``duplicate_query``: their judgments are the same, so the question counts twice.
    ``conflicting_queries``: their judgments differ, so no ranking can satisfy both.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    ids, texts = queries.column("query_id").to_pylist(), queries.column("text").to_pylist()
    for query_id, text in zip(ids, texts, strict=True):
        groups[" ".join(text.split()).casefold()].append(query_id)
    judged, findings = _judgments(qrels), []
    for text, (first, *others) in groups.items():
        for other in others if text else ():
            same = judged.get(first) == judged.get(other)
            how = ", with the same judgments" if same else ", but its judgments differ"
            message = f"asks the same as query {shown(first)}{how}"
            check = DUPLICATE_QUERY if same else CONFLICT
            findings.append(Finding(WARNING, check, message, other))
    return findings_table(findings)


def _judgments(qrels: pa.Table) -> dict[str, frozenset[frozenset[tuple[object, ...]]]]:
    """Return the evidences of each query, whatever they are called."""
    by_query: dict[str, dict[str, set[tuple[object, ...]]]] = defaultdict(lambda: defaultdict(set))
    names = ("query_id", "evidence_id", "document_id", "start", "end", "grade")
    for query, evidence, *rest in zip(*(qrels.column(n).to_pylist() for n in names), strict=True):
        by_query[query][evidence].add(tuple(rest))
    return {query: frozenset(map(frozenset, rows.values())) for query, rows in by_query.items()}
