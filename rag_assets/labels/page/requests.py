"""The bodies of the page's requests: what they may hold, and how long it may be."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from rag_assets.errors import UsageError
from rag_assets.labels.logs import DUPLICATE, HIGHEST_GRADE, QuestionMark, Range, Status
from rag_assets.labels.pool import PooledUnit

MAX_CHARACTERS = 10_000
MAX_SECONDS = 86_400


def _time(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARACTERS)]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Time = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"),
    AfterValidator(_time),
]
Position = Annotated[int, Field(ge=0, le=2**40)]


class EmptyBody(BaseModel):
    """A request; a key that is not known is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NextBody(EmptyBody):
    """Who wants the next item."""

    by: Name


class UndoBody(NextBody):
    """Whose last judgment is taken back, and when the key was pressed."""

    at: Time


class TextBody(EmptyBody):
    """Which part of a document is wanted, and whose words are marked in it."""

    query_id: Id
    document_id: Id
    start: Position
    end: Position

    @property
    def item(self) -> PooledUnit:
        """The question and the span."""
        return PooledUnit(self.query_id, self.document_id, self.start, self.end)


class AnswerBody(TextBody, UndoBody):
    """What somebody said of the item that was shown, when the log had ``n_lines`` of it."""

    status: Status
    grade: Annotated[int, Field(ge=0, le=HIGHEST_GRADE)] | None
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
    evidence: Annotated[
        list[Annotated[list[Position], Field(min_length=2, max_length=2)]], Field(max_length=100)
    ]
    n_lines: Position

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The evidence, as the log holds it."""
        return tuple((start, end) for start, end in self.evidence)


class MarkBody(UndoBody):
    """What somebody says of a question; null takes it back."""

    query_id: Id
    mark: Literal["unanswerable", "unclear", "duplicate"] | None
    of: Id | None = None

    def question_mark(self) -> QuestionMark:
        """Return the mark.

        Raises:
            UsageError: a question is called a duplicate of itself.
        """
        if self.mark == DUPLICATE and self.of == self.query_id:
            raise UsageError("a question is no duplicate of itself")
        return QuestionMark(self.query_id, self.mark, self.of, self.by, self.at)
