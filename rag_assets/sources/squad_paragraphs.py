"""The paragraphs of a SQuAD file, each context once, with the ids that their documents get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_assets.errors import DataError
from rag_assets.sources.fields import checked_id, string
from rag_assets.sources.lines import read_text
from rag_assets.sources.nested import Inside, items
from rag_assets.sources.strict_json import JsonError, parse_json, type_name


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of an article.

    Attributes:
        document_id: the article's title with ``_`` for blanks and the paragraph's number from 0,
            as ``Normans_p00``; a context that stood before has the id that it got there.
        title: the article's title with blanks for ``_``.
        repeated: whether the same context stood before.
        content: the paragraph's object, with its questions under ``qas``.
    """

    place: Inside
    document_id: str
    title: str
    context: str
    repeated: bool
    content: dict[str, Any]

    def questions(self) -> Iterator[tuple[dict[str, Any], Inside]]:
        """Yield every question with its place.

        Raises:
            DataError: ``qas`` is missing or no list of objects.
        """
        return items(self.content, "qas", self.place)


def read_paragraphs(file: Path) -> Iterator[Paragraph]:
    """Yield all paragraphs in order.

    Articles with the same title count on, so that every id is unique.

    Raises:
        DataError: the file is not strict JSON, or not of the shape of SQuAD.
    """
    top = Inside(file)
    ids: dict[str, str] = {}
    numbers: Counter[str] = Counter()
    for article, place in items(_content(file), "data", top):
        title = string(article, "title", place)
        slug = "_".join(title.split(" "))
        for paragraph, inside in items(article, "paragraphs", place):
            context = string(paragraph, "context", inside)
            repeated = context in ids
            found = checked_id(f"{slug}_p{numbers[slug]:02d}", place, "title")
            numbers[slug] += 1
            document_id = ids.setdefault(context, found)
            yield Paragraph(
                inside, document_id, title.replace("_", " "), context, repeated, paragraph
            )


def _content(file: Path) -> dict[str, Any]:
    try:
        value = parse_json(read_text(file))
    except JsonError as error:
        raise DataError(error.problem, file=file, line=error.line) from error
    if not isinstance(value, dict):
        raise DataError(f"found {type_name(value)}; must be an object", file=file)
    return value
