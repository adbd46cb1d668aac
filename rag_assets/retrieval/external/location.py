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
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_assets.retrieval.external.base import Hit

EXACT, NORMALISED, AMBIGUOUS, MISSING = "exact", "normalised", "ambiguous", "missing"
"""How a text was located: as it is, made alike; not: at several places, at none."""

WINDOW = 32
"""Characters from the beginning of a text whose hashes are compared first, at most."""

BLOCK_CHARACTERS = 1 << 20
"""Documents are searched together up to so many characters."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_TABLE_BITS = 20
_SHIFT = np.uint64(64 - _TABLE_BITS)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_RUNS = re.compile(r"\s+|[!-~]+(?![^\s!-~])|[!-~]?[^\s!-~]+")


class Place(NamedTuple):
    """Where a text stands.

    Attributes:
        how: one of :data:`EXACT`, :data:`NORMALISED`, :data:`AMBIGUOUS`, :data:`MISSING`.
        document_id: its document, also where only that is known; None: not even that.
        start: its first character; None where it was not located.
        end: the character after its last one; likewise.
    """

    how: str
    document_id: str | None = None
    start: int | None = None
    end: int | None = None


def locate(
    hits: Sequence[Hit], documents: Mapping[str, str], titles: Mapping[str, str] = {}
) -> list[Place]:
    """Return the place of each hit that has a text.

    Args:
        hits: with a ``text`` each.
        documents: id -> text.
        titles: id -> title, of documents whose text does not begin with it.
    """
    names = _Names(documents)
    wanted = {hit: names.of(hit) for hit in dict.fromkeys(hit._replace(score=None) for hit in hits)}
    alike = _AlikeCorpus(documents)
    ways = ((EXACT, _Corpus(documents)), (NORMALISED, alike), (NORMALISED, alike.behind(titles)))
    places = _located(wanted, ways)
    return [places[hit._replace(score=None)] for hit in hits]


class _Names:
    """Which documents the source of a hit can mean: an id, or a path that ends as an id does."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._documents = documents
        self._ends: dict[tuple[str, ...], list[str]] = {}
        for document_id in documents:
            parts = _parts(document_id)
            for one in {parts, _without_suffix(parts)}:
                for first in range(len(one)):
                    self._ends.setdefault(one[first:], []).append(document_id)
        self._whole = {one: d for d in documents for one in (_without_suffix(_parts(d)), _parts(d))}

    def of(self, hit: Hit) -> tuple[str, ...] | None:
        """Return the documents that a hit names; None: it names none, so it may be any."""
        for name in (hit.document_id, hit.source):
            if name is not None:
                if name in self._documents:
                    return (name,)
                found = self._by_path(_parts(name))
                if found:
                    return tuple(sorted(set(found)))
        return None

    def _by_path(self, parts: tuple[str, ...]) -> list[str]:
        """A path names a document when one of the two ends with the whole other."""
        for one in (parts, _without_suffix(parts)):
            if one in self._ends:
                return self._ends[one]
            for first in range(1, len(one)):
                if one[first:] in self._whole:
                    return [self._whole[one[first:]]]
        return []


def _parts(name: str) -> tuple[str, ...]:
    path = name.removeprefix("file://").replace("\\", "/")
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _without_suffix(parts: tuple[str, ...]) -> tuple[str, ...]:
    if not parts:
        return parts
    stem, dot, _ = parts[-1].rpartition(".")
    return (*parts[:-1], stem) if dot and stem else parts


def _located(
    wanted: Mapping[Hit, tuple[str, ...] | None], ways: Sequence[tuple[str, _Corpus]]
) -> dict[Hit, Place]:
    places: dict[Hit, Place] = {}
    rest = dict(wanted)
    for how, corpus in ways:
        anywhere = [corpus.text(hit) for hit, named in rest.items() if named is None]
        found = corpus.everywhere(dict.fromkeys(filter(None, anywhere)))
        for hit, named in list(rest.items()):
            text = corpus.text(hit)
            own = found.get(text, []) if named is None else list(corpus.inside(text, named))
            place = _one_of(how, hit, own)
            if place is not None:
                places[hit] = place
                del rest[hit]
    for hit, named in rest.items():
        places[hit] = Place(MISSING, named[0] if named is not None and len(named) == 1 else None)
    return places


def _one_of(how: str, hit: Hit, found: Sequence[tuple[str, int, int]]) -> Place | None:
    """Return the only occurrence, or that at which the hit says it starts; None: there is none."""
    if len(found) > 1 and hit.start is not None:
        found = [one for one in found if one[1] == hit.start] or found
    if len(found) == 1 and found[0][2] > found[0][1]:  # else it is a title and nothing more
        return Place(how, *found[0])
    found = [one for one in found if one[2] > one[1]]
    documents = {document_id for document_id, _, _ in found}
    return Place(AMBIGUOUS, documents.pop() if len(documents) == 1 else None) if found else None


class _Corpus:
    """The documents as they are."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        self._originals = documents

    def text(self, hit: Hit) -> str:
        """Return what is looked for; empty: nothing can be."""
        return hit.text if hit.text is not None and hit.text.strip() else ""

    def of(self, document_id: str) -> str:
        """Return the text in which it is looked for."""
        return self._originals[document_id]

    def span(self, document_id: str, start: int, end: int) -> tuple[str, int, int]:
        """Return a span of that text as one of the document."""
        return document_id, start, end

    def inside(self, text: str, named: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield all spans of a text in some documents."""
        for document_id in named if text else ():
            whole = self.of(document_id)
            start = whole.find(text)
            while start >= 0:
                yield self.span(document_id, start, start + len(text))
                start = whole.find(text, start + 1)

    def everywhere(self, texts: Mapping[str, None]) -> dict[str, list[tuple[str, int, int]]]:
        """Return text -> all its spans; all texts are looked for in one pass."""
        found: dict[str, list[tuple[str, int, int]]] = {}
        by_window: dict[int, list[str]] = {}
        for text in texts:
            window = min(1 << (len(text).bit_length() - 1), WINDOW)
            by_window.setdefault(window, []).append(text)
        for block in self._blocks() if texts else ():
            codes = np.frombuffer(block.text.encode("utf-32-le", "surrogatepass"), np.uint32)
            for window, own in by_window.items():
                for text, place in _occurrences(codes, block.text, own, window):
                    document_id, start = block.document_at(place)
                    if start + len(text) <= len(self.of(document_id)):
                        span = self.span(document_id, start, start + len(text))
                        found.setdefault(text, []).append(span)
        return found

    def _blocks(self) -> Iterator[_Block]:
        ids: list[str] = []
        size = 0
        for document_id in self._originals:
            ids.append(document_id)
            size += len(self.of(document_id)) + 1
            if size >= BLOCK_CHARACTERS:
                yield _Block.of(ids, [self.of(one) for one in ids])
                ids, size = [], 0
        if ids:
            yield _Block.of(ids, [self.of(one) for one in ids])


class _AlikeCorpus(_Corpus):
    """The documents with white space and Unicode made alike."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        super().__init__(documents)
        self._alike: dict[str, str] = {}

    def behind(self, titles: Mapping[str, str]) -> _TitledCorpus:
        """Return the same documents, each behind its title."""
        return _TitledCorpus(self._originals, titles)

    def text(self, hit: Hit) -> str:
        return normalised(super().text(hit)).strip()

    def of(self, document_id: str) -> str:
        if document_id not in self._alike:
            self._alike[document_id] = normalised(self._originals[document_id])
        return self._alike[document_id]

    def span(self, document_id: str, start: int, end: int) -> tuple[str, int, int]:
        offsets = _offsets(self._originals[document_id])
        return document_id, offsets[start][0], offsets[end - 1][1]


class _TitledCorpus(_AlikeCorpus):
    """The documents behind their titles; what is located is the part below the title."""

    def __init__(self, documents: Mapping[str, str], titles: Mapping[str, str]) -> None:
        heads = {document_id: f"{titles.get(document_id, '')}\n" for document_id in documents}
        super().__init__({one: heads[one] + text for one, text in documents.items()})
        self._heads = heads

    def text(self, hit: Hit) -> str:
        """Return it without the front matter and the marks of a heading before it."""
        text = _FRONT_MATTER.sub("", hit.text or "").lstrip("# \t\n")
        return super().text(hit._replace(text=text))

    def span(self, document_id: str, start: int, end: int) -> tuple[str, int, int]:
        _, first, last = super().span(document_id, start, end)
        head = len(self._heads[document_id])
        return document_id, max(first - head, 0), max(last - head, 0)


class _Block(NamedTuple):
    """Documents one after the other, a character between, and where each starts."""

    text: str
    ids: list[str]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ids: list[str], texts: list[str]) -> _Block:
        starts = np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])
        return cls("\0".join(texts), ids, starts.astype(np.int64))

    def document_at(self, place: int) -> tuple[str, int]:
        """Return the document of a character, and which of its own it is."""
        number = int(np.searchsorted(self.starts, place, side="right")) - 1
        return self.ids[number], place - int(self.starts[number])


def _occurrences(
    codes: npt.NDArray[np.uint32], whole: str, texts: Sequence[str], window: int
) -> Iterator[tuple[str, int]]:
    """Yield (text, character at which it starts) for all places; hashes propose, texts decide."""
    by_hash: dict[int, list[str]] = {}
    for text in texts:
        begin = text[:window].encode("utf-32-le", "surrogatepass")
        own = _window_hashes(np.frombuffer(begin, np.uint32), window)
        by_hash.setdefault(int(own[0]), []).append(text)
    hashes = _window_hashes(codes, window)
    known = np.array(sorted(by_hash), np.uint64)
    may_be = np.zeros(1 << _TABLE_BITS, np.bool_)  # most hashes are ruled out by a look into it
    may_be[known >> _SHIFT] = True
    places = np.flatnonzero(may_be[hashes >> _SHIFT])
    for place in places[np.isin(hashes[places], known)].tolist():
        for text in by_hash[int(hashes[place])]:
            if whole.startswith(text, place):
                yield text, place


def _window_hashes(codes: npt.NDArray[np.uint32], window: int) -> npt.NDArray[np.uint64]:
    """Return a polynomial hash, modulo 2^64, of each ``window`` characters, a power of two.

    That of twice as many is made of two: ``h(ab) = h(a) * base^len(b) + h(b)``.
    """
    hashes, base, size = codes.astype(np.uint64) * _BASE, _BASE, 1
    while size < window:
        hashes = hashes[:-size] * base + hashes[size:]
        base, size = np.uint64(int(base) ** 2 % 2**64), size * 2
    return hashes


def normalised(text: str) -> str:
    """Return ``text`` in NFKC with one blank for each run of white space."""
    return "".join(made for made, _, _ in _pieces(text))


def _offsets(text: str) -> list[tuple[int, int]]:
    """Return of which characters of ``text`` each of its normalised form was made."""
    offsets: list[tuple[int, int]] = []
    for made, start, end in _pieces(text):
        if len(made) == end - start:
            offsets += [(place, place + 1) for place in range(start, end)]
        else:
            offsets += [(start, end)] * len(made)
    return offsets


def _pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield normalised pieces, and the characters that each was made of.

    A character and the marks that combine with it are one piece, whose form does not depend on what
    stands around it: so a part of a text is normalised as it is inside the whole.
    """
    for run in _RUNS.finditer(text):
        piece = run[0]
        if piece.isspace():
            yield " ", run.start(), run.end()
        elif piece.isascii():
            yield piece, run.start(), run.end()
        else:
            bounds = [i for i, c in enumerate(piece) if not i or not unicodedata.combining(c)]
            for start, end in pairwise([*bounds, len(piece)]):
                made = unicodedata.normalize("NFKC", piece[start:end])
                yield made, run.start() + start, run.start() + end
