"""What every judge is: options, and a function from what is judged to verdicts.

The score in a judge's reply stands on a line of its own, once, or there is none. The line is
``##final score: n``, the last of the reply, or the first where the reason stands below it. Whoever
searches a reply for numbers finds those of the passage: "published in 2019" is no verdict. So
nothing else is read, and a reply that speaks of a final score with a number anywhere else, as one
does that repeats what a passage tells it to say, has none either. What a model thinks aloud before
its reply (``<think>``) is no part of it.

Of an answer's claims the reply has a line each in their order, ``##claim 1: n``, under the same
rules: where a line is missing or there is one too many, no claim of that answer has a verdict.

A claim is a sentence of the answer, as in the support evaluation of TREC RAG 2024 (Thakur et al.
2025, arXiv:2504.15205), whose scale and weights groundedness has: full support counts 1, partial
1/2. RAGChecker (Ru et al. 2024, arXiv:2408.08067) and Ragas (Es et al. 2024) first have a model
split sentences further; faithfulness is there the share of supported claims too. That an answer is
to the question is said with 0 or 1, as in ARES (Saad-Falcon et al. 2024, arXiv:2311.09476).
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

Kind = Literal["relevance", "correctness", "groundedness", "answer_relevance"]
"""What is judged: passages, or answers; the last two claim by claim, without a right answer."""

RELEVANCE: Kind = "relevance"
CORRECTNESS: Kind = "correctness"

ClaimKind = Literal["groundedness", "answer_relevance"]

GROUNDEDNESS: ClaimKind = "groundedness"
ANSWER_RELEVANCE: ClaimKind = "answer_relevance"
OF_CLAIMS: tuple[ClaimKind, ...] = (GROUNDEDNESS, ANSWER_RELEVANCE)

HIGHEST: Mapping[Kind, int] = {RELEVANCE: 3, CORRECTNESS: 1, GROUNDEDNESS: 2, ANSWER_RELEVANCE: 1}
"""The best grade of each; the worst is 0."""

VERDICTS: Mapping[str, tuple[Kind, ...]] = {
    "relevance_verdicts": (RELEVANCE,),
    "answer_verdicts": (CORRECTNESS,),
    "claim_verdicts": OF_CLAIMS,
}
"""Asset of verdicts -> the kinds that it holds."""

UNPARSED = "unparsed"
"""The problem of a verdict whose reply holds no score in the form that was asked for."""


def _form(line: str, mention: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of a line with a score, and of any text that speaks of one."""
    return (
        re.compile(rf"(?:\*\*|`)?\s*##\s*({line}):\s*([0-9])\s*(?:\*\*|`)?", re.IGNORECASE),
        re.compile(rf"{mention}\W{{0,20}}(?:(?:is|of|=)\W{{0,5}})?[0-9]", re.IGNORECASE),
    )


_FINAL = _form("final score", r"final[\s_*-]*score")
_CLAIM = _form("claim [0-9]+", r"claim\W{0,5}[0-9]+(?![0-9])")


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


class ClaimItem(NamedTuple):
    """Claim ``number`` (from 1) of an answer; all claims of one are judged in one request.

    ``contexts`` are the texts that the answer was written from: none where they do not matter.
    """

    kind: ClaimKind
    query_id: str
    question: str
    text: str
    contexts: tuple[str, ...]
    claims: tuple[str, ...]
    number: int

    @property
    def claim(self) -> str:
        """The sentence that is judged."""
        return self.claims[self.number - 1]

    @property
    def place(self) -> tuple[str | int, ...]:
        """What finds its verdict: the key of ``schemas.CLAIM_VERDICTS``."""
        context = fingerprint(list(self.contexts))[:32] if self.contexts else ""
        return (self.query_id, self.kind, self.text, context, self.number)

    @property
    def texts(self) -> tuple[str, ...]:
        """All that a verdict depends on."""
        return (self.question, self.text, *self.contexts)


Item = RelevanceItem | CorrectnessItem | ClaimItem


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
    """``judges`` sets what a judge judges: else ``relevance`` and, of answers, ``correctness``.

    ``groundedness`` of an answer in its contexts and ``answer_relevance`` to the question need no
    right answer, and are judged where they are named. ``depth`` is the number of passages of each
    run that are judged.
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
        """Return the verdict on each item, in order.

        ``again``: what it says when it is asked once more, which differs where it draws replies.

        Raises:
            DataError: its file breaks its format.
            ModelUnavailable: its model cannot be had.
        """


def item_digest(item: Item) -> str:
    """Return what stands for the texts of an item in a file of recorded verdicts."""
    return fingerprint(list(item.texts))[:32]


def parse(reply: str, highest: int = 3, claims: tuple[int, int] | None = None) -> int | None:
    """Return the score of a reply; None: it has none, or one that is out of range.

    Args:
        reply: as the model wrote it.
        highest: the best score; the worst is 0.
        claims: the number of the claim whose score it is, and of all; None: the final score.
    """
    number, n = claims or (1, 1)
    names = [f"claim {place}" for place in range(1, n + 1)] if claims else ["final score"]
    form, mention = _CLAIM if claims else _FINAL
    lines = [line for text in without_thinking(reply).splitlines() if (line := text.strip())]
    matches = [form.fullmatch(line) for line in lines]
    scores = [(match[1].lower(), int(match[2])) for match in matches if match]
    if [name for name, _ in scores] != names or len(mention.findall("\n".join(lines))) != n:
        return None
    if not (all(matches[-n:]) or all(matches[:n])) or max(score for _, score in scores) > highest:
        return None
    return scores[number - 1][1]


def score_of(reply: str, item: Item) -> int | None:
    """Return the score that a reply gives an item; None: it has none."""
    claims = (item.number, len(item.claims)) if isinstance(item, ClaimItem) else None
    return parse(reply, HIGHEST[item.kind], claims)
