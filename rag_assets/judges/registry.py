"""``type: llm``, ``type: recorded``, ``type: words``, and all types of judges by their names.

``llm`` asks a language model, whose reply ends with a score. Whether it judges its own work is told
by the names of models. One model has several: providers put their own before it
(``openai/gpt-4o``), and a version stands behind it (``gpt-4o-2024-08-06``), so these are left out
of the comparison. Two sizes or generations are two models.

``recorded`` reads verdicts from a file, with the replies that they were read in: one JSON object a
line. Of a passage: ``query_id``, ``document_id``, ``start``, ``end``; of an answer: ``query_id``,
``answer``; of a claim besides these ``kind``, ``claim`` and ``context``, the keys of the table of
verdicts. Then ``reply``, what the judge wrote, which is read as that of a language model is, so
that anybody can check the verdict; or, where there is none, ``grade`` (of a passage or a claim) or
``correct`` (of an answer, true or false); null is missing. ``digest`` stands for the texts that
were judged: where they are others now, the verdict is missing. Other keys are ignored.
``rag-assets judge export`` writes such a file.

``words`` takes no model at all: how many words two texts have in common.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import Field

from rag_assets.answers.answer_text import words
from rag_assets.answers.metrics import token_f1
from rag_assets.judges.base import (
    ANSWER_RELEVANCE,
    CORRECTNESS,
    GROUNDEDNESS,
    HIGHEST,
    OF_CLAIMS,
    RELEVANCE,
    UNPARSED,
    ClaimItem,
    ClaimKind,
    CorrectnessItem,
    Item,
    Judge,
    Kind,
    RelevanceItem,
    Verdict,
    item_digest,
    score_of,
)
from rag_assets.llm.client import (
    Answer,
    ChatRequest,
    Completion,
    Failed,
    Template,
    packaged_template,
    passages_block,
    read_template,
)
from rag_assets.llm.completions import ModelSession
from rag_assets.llm.replies import reply_key
from rag_assets.options import Number
from rag_assets.sources.fields import Id, Place, Position, Text, checked_id
from rag_assets.sources.row_files import read_declared
from rag_assets.store.canonical import canonical_json

ABSENT = "not in the file"
EDITED = "recorded of another text"


class RecordedVerdict(NamedTuple):
    """One line of a file: its number, the verdict or the reply that it is read in, and a digest."""

    line: int
    verdict: Verdict
    reply: str | None
    digest: str | None


class RecordedJudge(Judge):
    """Verdicts read from ``path`` (relative to the YAML file), such as exported ones.

    Verdicts that the file lacks, or has for a text that was edited since, are missing and counted.
    """

    file_options: ClassVar[tuple[str, ...]] = ("path",)

    type: Literal["recorded"]
    path: Path

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterator[Verdict]:
        """Look each item up in the file."""
        records = read_recorded(self.path)
        for item in items:
            record = records.get(item.place)
            if record is None:
                yield Verdict(None, ABSENT)
            elif record.digest not in (None, item_digest(item)):
                yield Verdict(None, EDITED)
            elif record.reply is not None:
                yield _scored(item, record.reply, f"line {record.line}")
            else:
                yield record.verdict


_GRADES = f"an integer from 0 to {HIGHEST[RELEVANCE]}, or null"
_Grade = Annotated[int, Meta(ge=0, le=HIGHEST[RELEVANCE], description=_GRADES)]


class _Line(msgspec.Struct):
    query_id: Id
    answer: Text | UnsetType = UNSET
    document_id: Id | UnsetType = UNSET
    start: Position | UnsetType = UNSET
    end: Position | UnsetType = UNSET
    reply: Text | None = None
    grade: _Grade | UnsetType | None = UNSET
    correct: Annotated[bool | UnsetType | None, Meta(description="true, false or null")] = UNSET
    kind: Annotated[ClaimKind | UnsetType, Meta(description=" or ".join(OF_CLAIMS))] = UNSET
    context: Text = ""
    claim: Position | UnsetType = UNSET
    digest: Text | None = None
    problem: Text | None = None


def read_recorded(path: Path) -> dict[tuple[str | int, ...], RecordedVerdict]:
    """Read a file of verdicts, by what they are of.

    Raises:
        DataError: it cannot be read, has another form, or an item occurs twice; names the file,
            the line and the key.
    """
    records: dict[tuple[str | int, ...], RecordedVerdict] = {}
    for place, line in read_declared(path, _Line):
        key = _key_of(line, place)
        if key in records:
            raise place.error(f"was already judged on line {records[key].line}", "query_id")
        records[key] = _record(line, place)
    return records


def _key_of(line: _Line, place: Place) -> tuple[str | int, ...]:
    query_id = checked_id(line.query_id, place, "query_id")
    if line.answer is not UNSET:
        if line.claim is UNSET:
            return query_id, line.answer
        if line.kind is UNSET:
            raise place.error(f"is missing; must be {' or '.join(OF_CLAIMS)}", "kind")
        return query_id, line.kind, line.answer, line.context, line.claim
    if line.document_id is UNSET:
        raise place.error("is missing, and so is `answer`; give one of the two", "document_id")
    if line.start is UNSET or line.end is UNSET:
        key = "start" if line.start is UNSET else "end"
        raise place.error("is missing; must be an integer from 0 on", key)
    if line.end < line.start:
        raise place.error(f"is {line.end}, before its start {line.start}", "end")
    return query_id, checked_id(line.document_id, place, "document_id"), line.start, line.end


def _record(line: _Line, place: Place) -> RecordedVerdict:
    number = place.line or 0
    of_answer = line.answer is not UNSET and line.claim is UNSET
    name, given = ("correct", line.correct) if of_answer else ("grade", line.grade)
    highest = HIGHEST[RELEVANCE if line.kind is UNSET else line.kind]
    if line.reply is not None:
        verdict = Verdict(None)  # of a claim, which of the reply's lines it is says the item
    elif given is UNSET:
        raise place.error(f"is missing, and so is `{name}`: the verdict", "reply")
    elif given is None:
        verdict = Verdict(None, line.problem or "recorded as missing")
    elif given > highest:
        raise place.error(f"is {given}; must be at most {highest} for {line.kind}", name)
    else:
        verdict = Verdict(int(given))
    return RecordedVerdict(number, verdict, line.reply, line.digest)


class WordsJudge(Judge):
    """Word overlap, for tests and as the floor that a real judge must pass.

    The grade of a passage is the quarter of the question's different words that it contains: 0 for
    less than one quarter, 3 for three or more. So it is of a claim with the question's words in
    halves, and of the claim's words that the contexts contain in thirds. An answer is right if the
    best F1 of its words and those of a right one is at least ``right``. It does not see meaning: a
    negation or another number is one word among many. ``language`` says how texts become words:
    ``cjk`` takes characters.
    """

    type: Literal["words"]
    language: Literal["standard", "cjk"] = "standard"
    right: Annotated[Number, Field(gt=0, le=1)] = 0.5

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterator[Verdict]:
        """Count the words of each item."""
        for item in items:
            if isinstance(item, CorrectnessItem):
                _, text, *golds = (words(text, self.language) for text in item.texts)
                yield Verdict(int(max(token_f1(gold, text) for gold in golds) >= self.right))
                continue
            of, other = item.question, item.claim if isinstance(item, ClaimItem) else item.text
            if item.kind == GROUNDEDNESS and isinstance(item, ClaimItem):
                of, other = item.claim, " ".join(item.contexts)
            bag, highest = set(words(of, self.language)), HIGHEST[item.kind]
            shared = len(bag & set(words(other, self.language)))
            yield Verdict(min((highest + 1) * shared // len(bag), highest) if bag else 0)


PLACES: Mapping[Kind, tuple[str, ...]] = {
    RELEVANCE: ("question", "passage"),
    CORRECTNESS: ("question", "golds", "answer"),
    GROUNDEDNESS: ("question", "passages", "claims"),
    ANSWER_RELEVANCE: ("question", "claims"),
}
"""What a prompt must have a place for."""

Stored = Callable[[Sequence[ChatRequest]], Sequence[Completion | None]]
"""Returns the stored reply to each request."""

_VERSION = re.compile(r"(?:[-@:](?:\d{4}-\d{2}-\d{2}|\d{8}|latest|free))+$")


class LlmJudge(Judge):
    """A language model that is asked for a score, with its reasons before it.

    ``llm`` names one of the experiment's ``llms`` (default: its ``llm``). ``relevance_prompt`` and
    ``correctness_prompt`` are prompt files that replace ours, with places for ``question`` and
    ``passage``, or ``question``, ``golds`` and ``answer``; they must ask for a last line ``##final
    score: n``. ``groundedness_prompt`` (``question``, ``passages``, ``claims``) and
    ``answer_relevance_prompt`` (``question``, ``claims``) must ask for a line ``##claim 1: n`` a
    claim. A reply without it is requested once more; then the verdict is missing.
    """

    file_options: ClassVar[tuple[str, ...]] = tuple(f"{kind}_prompt" for kind in PLACES)

    type: Literal["llm"]
    llm: str | None = None
    relevance_prompt: Path | None = None
    correctness_prompt: Path | None = None
    groundedness_prompt: Path | None = None
    answer_relevance_prompt: Path | None = None
    temperature: Annotated[Number, Field(ge=0)] | None = 0.0
    seed: Annotated[int, Field(ge=0, strict=True)] | None = 0
    max_tokens: Annotated[int, Field(ge=1, strict=True)] = 512

    def described(self, kind: Kind) -> Mapping[str, Any]:
        """Return the options and the prompt of the kind; which model it is says its identity."""
        options = self.model_dump(include={"type", "temperature", "seed", "max_tokens"})
        return {**options, **self.template(kind).as_config()}

    def template(self, kind: Kind) -> Template:
        """Return the prompt for a kind: ours, or the file's."""
        file = self.files().get(f"{kind}_prompt")
        if file is None:
            return packaged_template(f"judge_{kind}", PLACES[kind], ())
        return read_template(file, PLACES[kind], ())

    def requests(self, items: Sequence[Item], *, again: bool = False) -> list[ChatRequest]:
        """Return what is asked of each item; ``again``: for the next sample.

        Claims of one answer have equal requests, of which one is sent.
        """
        templates = {kind: self.template(kind) for kind in {item.kind for item in items}}
        options = (self.temperature, self.seed, self.max_tokens)
        requests = [
            ChatRequest(templates[item.kind].filled(_values(item)), *options, label)
            for item in items
            for label in [templates[item.kind].label]
        ]
        return [asked_again(request) for request in requests] if again else requests

    def open_requests(self, items: Sequence[Item], stored: Stored) -> list[ChatRequest]:
        """Return the requests that the verdicts on items can take, at most.

        The first one of each, and the second unless the first reply is ``stored`` and has a score.
        """
        first = self.requests(items)
        return first + [
            asked_again(request)
            for item, request, reply in zip(items, first, stored(first), strict=True)
            if reply is None or score_of(reply.text, item) is None
        ]

    def verdicts(
        self, items: Sequence[Item], session: ModelSession, *, again: bool = False
    ) -> Iterable[Verdict]:
        """Ask for each verdict that is not stored; once more where the reply has no score."""
        if not items:
            return []
        with session.completions(len(items), self.llm) as completions:

            def read(numbers: Sequence[int], requests: Sequence[ChatRequest]) -> list[Verdict]:
                keys = (reply_key(completions.model.identity, request) for request in requests)
                replies = zip(numbers, completions.answer(requests), keys, strict=True)
                return [_read(items[number], reply, key) for number, reply, key in replies]

            requests = self.requests(items, again=again)
            verdicts = read(range(len(items)), requests)
            unparsed = [n for n, verdict in enumerate(verdicts) if verdict.problem == UNPARSED]
            second = read(unparsed, [asked_again(requests[number]) for number in unparsed])
            session.served_models.extend(completions.served_models)
        of_second = dict(zip(unparsed, second, strict=True))
        return [of_second.get(number, verdict) for number, verdict in enumerate(verdicts)]


def asked_again(request: ChatRequest) -> ChatRequest:
    """Return the request for another reply to the same prompt."""
    seed = None if request.seed is None else request.seed + 1
    return replace(request, sample=request.sample + 1, seed=seed)


def _values(item: Item) -> Mapping[str, str]:
    # The mark is made of all texts: none of them can write it, nor that of another.
    nonce = canonical_json(list(item.texts))
    if isinstance(item, RelevanceItem):
        return {"question": item.question, "passage": passages_block([item.text], nonce)}
    if isinstance(item, ClaimItem):
        claims = passages_block(item.claims, nonce)
        passages = {"passages": passages_block(item.contexts, nonce)}
        of_kind = passages if item.kind == GROUNDEDNESS else {}
        return {"question": item.question, "claims": claims, **of_kind}
    golds, answer = passages_block(item.golds, nonce), passages_block([item.text], nonce)
    return {"question": item.question, "golds": golds, "answer": answer}


def _read(item: Item, reply: Answer, key: str) -> Verdict:
    if isinstance(reply, Failed):
        return Verdict(None, reply.reason, unanswered=True)
    return _scored(item, reply.text, key)


def _scored(item: Item, reply: str, source: str) -> Verdict:
    grade = score_of(reply, item)
    return Verdict(grade, UNPARSED if grade is None else None, source)


def model_name(name: str) -> str:
    """Return what two names of one model have in common."""
    return _VERSION.sub("", name.strip().lower().rsplit("/", 1)[-1])


JUDGE_TYPES: dict[str, type[Judge]] = {
    "llm": LlmJudge,
    "recorded": RecordedJudge,
    "words": WordsJudge,
}
"""All judge types, by their names."""
