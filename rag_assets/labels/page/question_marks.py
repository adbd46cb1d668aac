"""What people say of questions, one JSON object a line, only ever appended to.

    {"query_id": "q7", "mark": "duplicate", "of": "q2", "by": "ada", "at": "2026-03-01T09:30:00Z"}

``mark`` is ``unanswerable``, ``unclear`` or ``duplicate`` (then ``of`` may name the other one), or
null: taken back. The last line of a question counts. A mark changes no estimate: which questions
count is for whoever keeps them to say.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rag_assets.sources.fields import Place, identifier, optional_string, shown
from rag_assets.sources.strict_json import read_objects
from rag_assets.store.appended import append_line
from rag_assets.store.canonical import canonical_json

MARKS = ("unanswerable", "unclear", "duplicate")


class QuestionMark(NamedTuple):
    """One line."""

    query_id: str
    mark: str | None
    of: str | None = None
    by: str | None = None
    at: str | None = None


def append_mark(file: Path, mark: QuestionMark) -> None:
    """Append a line; it is on the disk when this returns.

    Raises:
        StoreError: the file cannot be written.
    """
    append_line(file, canonical_json(mark._asdict()))


def read_marks(file: Path) -> dict[str, QuestionMark]:
    """Return question -> its mark, of those that have one; none where there is no file.

    Raises:
        DataError: a line breaks the format.
    """
    marks: dict[str, QuestionMark] = {}
    for number, row in read_objects(file) if file.is_file() else ():
        place = Place(file, number)
        fields = (optional_string(row, key, place) for key in ("mark", "of", "by", "at"))
        one = QuestionMark(identifier(row, "query_id", place), *fields)
        if one.mark is not None and one.mark not in MARKS:
            raise place.error(f"is {shown(one.mark)}; allowed: {', '.join(MARKS)}", "mark")
        marks[one.query_id] = one
    return {name: one for name, one in marks.items() if one.mark is not None}
