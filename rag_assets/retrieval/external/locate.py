"""Where a returned text stands in the documents, so that it can be judged as our chunks are.

A text is looked for as it is, then with white space and Unicode made alike: each run of white space
is one blank, characters are those of NFKC (Unicode Standard Annex 15); at last behind the title of
a document, which a file may have in its first line. Where a hit names a document or its file, only
that one is looked at. A text that stands at several places is at none, unless the hit says where it
starts: nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from rag_assets.called.hits import Hit

EXACT, NORMALISED, AMBIGUOUS, MISSING = "exact", "normalised", "ambiguous", "missing"
"""How a text was located: as it is, made alike; not: at several places, at none."""

GRAM = 16
"""Characters of the pieces by which long texts are looked for in all documents at once."""

BLOCK_CHARACTERS = 1 << 24
"""Documents are searched together up to so many characters."""

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_RUNS = re.compile(r"\s+|[!-~]+(?![^\s!-~])|[!-~]?[^\s!-~]+")

Span = tuple[str, int, int]
"""Document id, first character, character after the last."""


class Place(NamedTuple):
    """Where a text stands.

    Attributes:
        how: one of :data:`EXACT`, :data:`NORMALISED`, :data:`AMBIGUOUS`, :data:`MISSING`.
        document_id: its document, also where only that is known; None: not even that.
        start: its first character; None if it was not located.
        end: the character after its last one; likewise.
    """

    how: str
    document_id: str | None = None
    start: int | None = None
    end: int | None = None


def locate(
    hits: Sequence[Hit], documents: Mapping[str, str], titles: Mapping[str, str] = {}
) -> list[Place]:
    """Return the place of each hit that has a text."""
    documents_of = _Sources(documents).documents_of
    unscored = [hit._replace(score=None) for hit in hits]
    open_hits = {hit: documents_of(hit) for hit in unscored}
    named = dict(open_hits)
    places: dict[Hit, Place] = {}
    heads = {document_id: f"{titles.get(document_id, '')}\n" for document_id in documents}
    for how, corpus in (
        (EXACT, _Corpus(documents)),
        (NORMALISED, _Corpus(documents, normalises=True)),
        (NORMALISED, _Corpus(documents, normalises=True, heads=heads)),
    ):
        texts = {corpus.wanted(hit) for hit, sources in open_hits.items() if sources is None}
        everywhere = corpus.everywhere(texts - {""})
        for hit, sources in list(open_hits.items()):
            text = corpus.wanted(hit)
            spans = everywhere.get(text, []) if sources is None else corpus.within(text, sources)
            place = _place_of(how, hit, spans)
            if place is not None:
                places[hit] = place
                del open_hits[hit]
    for hit in open_hits:
        sources = named[hit] or ()
        places[hit] = Place(MISSING, sources[0] if len(sources) == 1 else None)
    return [places[hit] for hit in unscored]


def _place_of(how: str, hit: Hit, spans: Sequence[Span]) -> Place | None:
    """Return the only span, or that at which the hit says it starts; None: there is none."""
    if len(spans) > 1 and hit.start is not None:
        spans = [span for span in spans if span[1] == hit.start] or spans
    is_single = len(spans) == 1
    spans = [span for span in spans if span[2] > span[1]]  # else it is a title and nothing more
    if is_single and spans:
        return Place(how, *spans[0])
    ids = {document_id for document_id, _, _ in spans}
    return Place(AMBIGUOUS, ids.pop() if len(ids) == 1 else None) if spans else None


class _Sources:
    """Which documents the source of a hit can mean.

    A path names a document when one of the two ends with the whole other, with or without the
    suffix of the file.
    """

    def __init__(self, documents: Collection[str]) -> None:
        self._documents = documents
        self._by_ending: dict[tuple[str, ...], list[str]] = {}
        self._by_path: dict[tuple[str, ...], str] = {}
        for document_id in documents:
            for path in _paths(document_id):
                self._by_path[path] = document_id
                for first in range(len(path)):
                    self._by_ending.setdefault(path[first:], []).append(document_id)

    def documents_of(self, hit: Hit) -> tuple[str, ...] | None:
        """Return the documents that a hit names; None: it names none, so it may be any."""
        for name in (hit.document_id, hit.source):
            if name is not None and name in self._documents:
                return (name,)
            for path in _paths(name or ""):
                if path in self._by_ending:
                    return tuple(sorted(set(self._by_ending[path])))
                for first in range(1, len(path)):
                    if path[first:] in self._by_path:
                        return (self._by_path[path[first:]],)
        return None


def _paths(name: str) -> list[tuple[str, ...]]:
    """Return the parts of a path, and the same without the suffix of the file."""
    path = name.removeprefix("file://").replace("\\", "/")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if not parts:
        return []
    stem, _, _ = parts[-1].rpartition(".")
    return [parts, (*parts[:-1], stem)] if stem else [parts]


class _Corpus:
    """The documents as they are searched: as they are, made alike, or behind their titles too."""

    def __init__(
        self,
        documents: Mapping[str, str],
        *,
        normalises: bool = False,
        heads: Mapping[str, str] = {},
    ) -> None:
        self._documents, self._normalises, self._heads = documents, normalises, heads
        self.of = cache(self._text_of)

    def wanted(self, hit: Hit) -> str:
        """Return the text that is looked for; empty: none can be."""
        text = hit.text or ""
        if self._heads:  # a file's title stands behind front matter and marks of a heading
            text = _FRONT_MATTER.sub("", text).lstrip("# \t\n")
        if self._normalises:
            return normalised(text).strip()
        return text if text.strip() else ""

    def _text_of(self, document_id: str) -> str:
        """Return the text in which it is looked for."""
        text = self._heads.get(document_id, "") + self._documents[document_id]
        return normalised(text) if self._normalises else text

    def span(self, document_id: str, start: int, end: int) -> Span:
        """Return a span of that text as one of the document."""
        if not self._normalises:
            return document_id, start, end
        head = self._heads.get(document_id, "")
        offsets = offsets_of(head + self._documents[document_id])
        first, last = offsets[start][0] - len(head), offsets[end - 1][1] - len(head)
        return document_id, max(first, 0), max(last, 0)

    def within(self, text: str, document_ids: Sequence[str]) -> list[Span]:
        """Return all spans of a text in some documents."""
        return [
            self.span(document_id, start, start + len(text))
            for document_id in (document_ids if text else ())
            for start in _starts(text, self.of(document_id))
        ]

    def everywhere(self, texts: Collection[str]) -> dict[str, list[Span]]:
        """Return text -> all its spans; all texts are looked for in one pass."""
        spans: dict[str, list[Span]] = {}
        for ids in self._blocks() if texts else ():
            whole = "\0".join(map(self.of, ids))
            starts = list(accumulate((len(self.of(name)) + 1 for name in ids), initial=0))
            grams: dict[str, list[int]] = {}
            for at in range(0, len(whole), GRAM):
                grams.setdefault(whole[at : at + GRAM], []).append(at)
            for text in texts:
                for at in _starts(text, whole, grams):
                    number = bisect_right(starts, at) - 1
                    if at + len(text) < starts[number + 1]:  # it ends in the same document
                        first = at - starts[number]
                        span = self.span(ids[number], first, first + len(text))
                        spans.setdefault(text, []).append(span)
        return spans

    def _blocks(self) -> Iterator[list[str]]:
        """Yield ids of documents whose texts are searched together."""
        ids: list[str] = []
        size = 0
        for document_id in self._documents:
            ids.append(document_id)
            size += len(self.of(document_id)) + 1
            if size >= BLOCK_CHARACTERS:
                yield ids
                ids, size = [], 0
        if ids:
            yield ids


def _starts(text: str, whole: str, grams: Mapping[str, list[int]] | None = None) -> list[int]:
    """Return all places at which a text begins, overlapping ones too.

    Args:
        text: not empty.
        whole: where it is looked for.
        grams: the pieces of ``GRAM`` characters one after the other -> where they stand in
            ``whole``; of them a text that is long enough holds one. None: it is read through.
    """
    if grams is not None and len(text) >= 2 * GRAM - 1:
        places = {
            at - offset
            for offset in range(GRAM)
            for at in grams.get(text[offset : offset + GRAM], ())
        }
        return sorted(at for at in places if at >= 0 and whole.startswith(text, at))
    starts, at = [], whole.find(text)
    while at >= 0:
        starts.append(at)
        at = whole.find(text, at + 1)
    return starts


def normalised(text: str) -> str:
    """Return ``text`` in NFKC with one blank for each run of white space."""
    return "".join(piece for piece, _, _ in _pieces(text))


def offsets_of(text: str) -> list[tuple[int, int]]:
    """Return of which characters of ``text`` each of its normalised form was made."""
    offsets: list[tuple[int, int]] = []
    for piece, start, end in _pieces(text):
        if len(piece) == end - start:
            offsets += [(place, place + 1) for place in range(start, end)]
        else:
            offsets += [(start, end)] * len(piece)
    return offsets


def _pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield normalised pieces, and the characters that each was made of.

    A character and the marks that combine with it are one piece, whose form does not depend on what
    stands around it: so a part of a text is normalised as it is inside the whole.
    """
    for run in _RUNS.finditer(text):
        if run[0].isspace():
            yield " ", run.start(), run.end()
        elif run[0].isascii():
            yield run[0], run.start(), run.end()
        else:
            bounds = [i for i, c in enumerate(run[0]) if not i or not unicodedata.combining(c)]
            for start, end in pairwise([*bounds, len(run[0])]):
                piece = unicodedata.normalize("NFKC", run[0][start:end])
                yield piece, run.start() + start, run.start() + end
