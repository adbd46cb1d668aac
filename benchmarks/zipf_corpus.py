"""Made texts of words by Zipf's law, and queries of words of one of them each; a seed fixes them.

Zipf's law: the r-th most frequent word has about 1 / r ** exponent of the occurrences of the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

N_WORDS, VOCABULARY, EXPONENT = 40, 20_000, 1.1
ASKED = 5
"""Words of a query: the rarest of its document."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ZipfWords:
    """Words that are drawn by Zipf's law.

    Attributes:
        words: strings, the most frequent first.
        exponent: how steeply occurrences fall; above 0.
    """

    words: npt.NDArray[np.object_]
    exponent: float

    @classmethod
    def of_syllables(cls, chance: np.random.Generator, n_words: int, exponent: float) -> ZipfWords:
        """Make words of three syllables each; some are made twice."""
        syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
        words = ["".join(chance.choice(syllables, size=3)) for _ in range(n_words)]
        return cls(np.array(words, dtype=object), exponent)

    def draw(self, chance: np.random.Generator, size: int | tuple[int, int]) -> Positions:
        """Return positions of words.

        The word of rank r is drawn with the share of the area under x ** -exponent between r and
        r + 1 in the area between 1 and one more than the number of words.
        """
        drawn, end = chance.random(size), len(self.words) + 1
        if self.exponent == 1:
            ranks = end**drawn
        else:
            power = 1 - self.exponent
            ranks = (1 + drawn * (end**power - 1)) ** (1 / power)
        return np.minimum(ranks.astype(np.int64), len(self.words)) - 1

    def text(self, positions: Positions) -> str:
        """Return the words at these positions."""
        return " ".join(self.words[positions])


class Corpus(NamedTuple):
    """What was written: the ids of documents and queries, and the document of each query."""

    ids: list[str]
    queries: list[str]
    targets: Positions


def write_corpus(
    folder: Path,
    n_documents: int,
    n_queries: int,
    chance: np.random.Generator,
    n_words: int = N_WORDS,
) -> Corpus:
    """Write documents of so many words, queries of words of one of them each, and labels."""
    words = ZipfWords.of_syllables(chance, VOCABULARY, EXPONENT)
    drawn = words.draw(chance, (n_documents, n_words))
    targets = chance.integers(0, n_documents, size=n_queries)
    ids = [f"d{number:07d}" for number in range(n_documents)]
    names = [f"q{number:06d}" for number in range(n_queries)]
    folder.mkdir(parents=True)
    documents = [
        {"id": name, "text": f"{words.text(row)}."} for name, row in zip(ids, drawn, strict=True)
    ]
    _write_rows(folder / "documents.jsonl", documents)
    asked = (words.text(np.unique(drawn[target])[-ASKED:]) for target in targets)
    queries = [{"query_id": name, "text": text} for name, text in zip(names, asked, strict=True)]
    _write_rows(folder / "queries.jsonl", queries)
    labels = [{"query_id": q, "doc_id": ids[t]} for q, t in zip(names, targets, strict=True)]
    _write_rows(folder / "judgments.jsonl", labels)
    return Corpus(ids, names, targets)


def _write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
