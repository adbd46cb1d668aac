"""What every judge is: options, and a function from what is judged to verdicts.

The score in a judge's reply stands on a line of its own, once, or there is none. The line is
``##final score: n``, the last of the reply, or the first where the reason stands below it. Whoever
searches a reply for numbers finds those of the passage: "published in 2019" is no verdict. So
nothing else is read, and a reply that speaks of a final score with a number anywhere else, as one
does that repeats what a passage tells it to say, has none either. What a model thinks aloud before
its reply (``<think>``) is no part of it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from rag_assets.llm.completions import ModelSession
from rag_assets.options import Depth, FileOptions
from rag_assets.query_sets.model_output import without_thinking
from rag_assets.store.canonical import fingerprint

Kind = Literal["relevance", "correctness"]
"""What is judged: passages, or answers."""

RELEVANCE: Kind = "relevance"
CORRECTNESS: Kind = "correctness"

HIGHEST: Mapping[Kind, int] = {RELEVANCE: 3, CORRECTNESS: 1}
"""The best grade of each; the worst is 0."""

UNPARSED = "unparsed"
"""The problem of a verdict whose reply holds no score in the form that was asked for."""


_LINE = re.compile(r"(?:\*\*|`)?\s*##\s*final score:\s*([0-9])\s*(?:\*\*|`)?", re.IGNORECASE)
_MENTION = re.compile(r"final[\s_*-]*score\W{0,20}(?:(?:is|of|=)\W{0,5})?[0-9]", re.IGNORECASE)


class RelevanceItem(NamedTuple):
    """A passage that is judged for a question: the characters [start, end) of a document."""

    query_id: str
    question: str
    document_id: str
    start: int
    end: int
    text: str

    @property
    def kind(self) -> Kind:
        """What is judged."""
        return RELEVANCE

    @property
    def place(self) -> tuple[str | int, ...]:
        """What finds its verdict: the key of ``schemas.RELEVANCE_VERDICTS``."""
        return (self.query_id, self.document_id, self.start, self.end)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that a verdict depends on."""
        return (self.question, self.text)


class CorrectnessItem(NamedTuple):
    """An answer that is judged against ``golds``, any of which is right."""

    query_id: str
    question: str
    text: str
    golds: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        """What is judged."""
        return CORRECTNESS

    @property
    def place(self) -> tuple[str | int, ...]:
        """What finds its verdict: the key of ``schemas.ANSWER_VERDICTS``."""
        return (self.query_id, self.text)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that a verdict depends on."""
        return (self.question, self.text, *self.golds)


Item = RelevanceItem | CorrectnessItem


class Verdict(NamedTuple):
    """What a judge says of an item.

    Attributes:
        grade: of a passage 0 to 3, of an answer 0 or 1; None: missing, which is never 0.
        problem: why it is missing.
        reply: which raw reply it was read in: its key in the store of replies (64 hexadecimal
            digits), or ``line N`` of a file; None: it was read in none.
        unanswered: whether a server gave nothing, so that it may be asked again.
    """

    grade: int | None
    problem: str | None = None
    reply: str | None = None
    unanswered: bool = False


class Judge(FileOptions):
    """``judges`` sets what a judge judges (default: everything that the experiment has).

    These are ``relevance`` of passages and ``correctness`` of answers. ``depth`` is the number of
    passages of each run that are judged.
    """

    type: str
    judges: Annotated[tuple[Kind, ...], Field(min_length=1)] | None = None
    depth: Depth = 10

    def described(self, kind: Kind) -> Mapping[str, Any]:
        """Return what of the options determines verdicts of a kind, besides files and the model."""
        left_out = {"judges", "depth", *self.file_options}
        return self.model_dump(mode="json", exclude=left_out)

    @abstractmethod
    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterable[Verdict]:
        """Return the verdict on each item, in order; all are of one kind.

        ``again``: what it says when it is asked once more, which differs where it draws replies.

        Raises:
            DataError: its file breaks its format.
            ModelUnavailable: its model cannot be had.
        """


def item_digest(item: Item) -> str:
    """Return what stands for the texts of an item in a file of recorded verdicts."""
    return fingerprint(list(item.texts))[:32]


def parse(reply: str, highest: int = 3) -> int | None:
    """Return the score of a reply; None: it has none, or one that is out of range.

    Args:
        reply: as the model wrote it.
        highest: the best score; the worst is 0.
    """
    lines = [line for text in without_thinking(reply).splitlines() if (line := text.strip())]
    scores = [match for line in lines if (match := _LINE.fullmatch(line))]
    if len(scores) != 1 or len(_MENTION.findall("\n".join(lines))) != 1:
        return None
    if not (_LINE.fullmatch(lines[-1]) or _LINE.fullmatch(lines[0])):
        return None
    score = int(scores[0][1])
    return score if score <= highest else None
