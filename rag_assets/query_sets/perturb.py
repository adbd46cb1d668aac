"""``perturb``: each query as hurried people type it, to see how far a retriever falls.

Words are drawn by a seed of the query alone, made from ``seed`` and its id, so another query
changes none. The text stands in the place of the original, as variant 0: a query for which nothing
is found any more must not fall back on its original.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.options import Number
from rag_assets.query_sets.query_set import ComputedQuerySet, Variants
from rag_assets.query_sets.variants import variant_table
from rag_assets.schemas import column_values
from rag_assets.store.canonical import seeded

Kind = Literal["typo", "case", "diacritics", "word_order", "keyboard", "missing_word"]
Draw = Callable[[int], int]
"""Gives a number from 0 to below another one."""

_BESIDE = {
    key: row[max(at - 1, 0) : at] + row[at + 1 : at + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for at, key in enumerate(row)
}
_WORD = re.compile(r"[^\W\d_]{4,}")
_ACCENTS = re.compile(r"[\u0300-\u036f]")


class PerturbQuerySet(ComputedQuerySet):
    """Each query with ``rate`` of its words changed, rounded, but at least one.

    A word that a kind cannot change is passed over; a list of ``kinds`` is a query set a kind.
    """

    strategy: Literal["perturb"]
    kinds: Kind = "typo"
    rate: Annotated[Number, Field(gt=0, le=1)] = 0.1
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 1

    def variants(self, queries: pa.Table) -> Variants:
        rows = column_values(queries, "query_id", "text")
        texts = pa.array([self.perturbed(*row) for row in rows], pa.string())
        place = queries.column_names.index("text")
        return Variants(variant_table(queries.set_column(place, "text", texts), {}))

    def perturbed(self, query_id: str, text: str) -> str:
        """Return the text with words changed; itself where none can be."""
        random = seeded(self.seed, query_id)
        words, n_changed = text.split(), 0
        n_wanted = max(1, round(self.rate * len(words)))
        for place in random.permutation(len(words)).tolist():
            before = list(words)
            _CHANGES[self.kinds](words, place, lambda below: int(random.integers(below)))
            n_changed += words != before
            if n_changed == n_wanted:
                break
        return " ".join(filter(None, words)) if n_changed else text


def _typo(words: list[str], place: int, draw: Draw) -> None:
    """Leave out, double or swap letters behind the first one of a word of at least 4."""
    word, match = words[place], _WORD.search(words[place])
    if match is not None:
        at = match.start() + 1 + draw(len(match[0]) - 2)
        middles = {word[at + 1], word[at] + word[at : at + 2], word[at + 1] + word[at]}
        edits = sorted({word[:at] + middle + word[at + 2 :] for middle in middles} - {word})
        words[place] = edits[draw(len(edits))]


def _keyboard(words: list[str], place: int, draw: Draw) -> None:
    """Strike the key beside the right one, on a QWERTY keyboard."""
    word = words[place]
    letters = [at for at, sign in enumerate(word) if sign.lower() in _BESIDE]
    if letters:
        at = letters[draw(len(letters))]
        beside = _BESIDE[word[at].lower()]
        struck = beside[draw(len(beside))]
        struck = struck.upper() if word[at].isupper() else struck
        words[place] = f"{word[:at]}{struck}{word[at + 1 :]}"


def _case(words: list[str], place: int, draw: Draw) -> None:
    word = words[place]
    words[place] = word.lower() if word == word.upper() else word.upper()


def _diacritics(words: list[str], place: int, draw: Draw) -> None:
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", words[place]))
    words[place] = unicodedata.normalize("NFC", plain)


def _word_order(words: list[str], place: int, draw: Draw) -> None:
    """Swap a word with the next one."""
    words[place : place + 2] = reversed(words[place : place + 2])


def _missing_word(words: list[str], place: int, draw: Draw) -> None:
    """Leave a word out, but not the last that is left."""
    if sum(map(bool, words)) > 1:
        words[place] = ""


_CHANGES: Mapping[Kind, Callable[[list[str], int, Draw], None]] = {
    "typo": _typo,
    "case": _case,
    "diacritics": _diacritics,
    "word_order": _word_order,
    "keyboard": _keyboard,
    "missing_word": _missing_word,
}
