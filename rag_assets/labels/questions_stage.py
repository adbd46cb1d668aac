"""``generated_questions``: what a language model asks about chunks, each with its chunk's span.

A question that is not worth a person's time is dropped, with one reason. Of questions that ask
nearly the same the earliest is kept. Similarity is Jaccard's of their sets of words; questions
about other numbers ("in 1999", "in 2001") are never alike.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    asked_config,
    asked_facts,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import DataError
from rag_assets.experiment.experiment import Experiment
from rag_assets.labels.questions import QUESTIONS, QuestionOptions
from rag_assets.llm.client import Answer, ChatRequest, Failed
from rag_assets.llm.completions import Completions, Estimate
from rag_assets.query_sets.model_output import Unusable, parsed_list, usable_text
from rag_assets.retrieval.lexical.analyzers.words import split_cjk, words
from rag_assets.schemas import column_values
from rag_assets.store.artifacts import ArtifactKey
from rag_assets.store.canonical import permanent_hash

TOO_SHORT = "too_short"
NOT_A_QUESTION = "not_a_question"
ABOUT_THE_PASSAGE = "about_the_passage"
COPIED = "copied_from_the_chunk"
ANSWER_INSIDE = "answer_in_the_question"
NEAR_DUPLICATE = "near_duplicate"
REASONS = (TOO_SHORT, NOT_A_QUESTION, ABOUT_THE_PASSAGE, COPIED, ANSWER_INSIDE, NEAR_DUPLICATE)
N_LATER = "n_later"
_PLAIN_ANSWERS = ("yes", "no", "true", "false")  # "no" inside a question gives nothing away
# Latin, full-width, Arabic, Ethiopic; Greek, of which NFC makes a semicolon; Armenian, in a word
_QUESTION_MARK = re.compile(
    "(?s:[?\uff1f\u061f\u037e\u1367]|\\A(?>.*?[\u0370-\u03ff\u1f00-\u1fff]).*;)"
    "[\"'\u00bb\u201d\u2019\u300d)\\s]*$|\u055e"
)
_SOURCE = "passage|excerpt|snippet|extract"
_ALSO = "text|document|article|paragraph|section|context|chapter|author|information"
_ABOUT = re.compile(
    rf"\b(?:(?:the|this|that|these|above|given|provided|following) (?:{_SOURCE})s?\b"
    rf"|(?:this|above|given|provided|following|(?:according|referring) to the|based on the"
    rf"|(?:mentioned|described|discussed|stated|provided|given|presented|written) (?:in|by) the"
    rf"|does the|did the|is the|in the|by the|of the) "
    rf"(?:(?:above|given|provided|following) )?(?:{_ALSO})s?(?=\s*(?:[?,.;:]|$"
    r"|mentions?|says?|said|states?|describes?|discuss(?:es)?|provides?|provided|above|given)))",
    re.IGNORECASE,
)
_ABOUT_CJK = re.compile(
    "\u672c\u6587|\u4e0a\u6587|\u6587\u4e2d|\u6587\u7ae0|\u8be5\u6587|\u8fd9\u6bb5|\u8be5\u6bb5"
    "|\u6bb5\u843d|\u4e0a\u8ff0(?:\u6587\u672c|\u5185\u5bb9)|\u7ed9\u5b9a\u7684?\u6587\u672c"
    "|\u672c\u6bb5|\u3053\u306e\u6587\u7ae0"
)
COPIED_WORDS = 4
"""Length of the runs of words by which a copy is found."""
_OBJECT = re.compile(r"\{[^{}]*\}", re.DOTALL)
_KEYS = ("question", "query")


class GeneratedQuestions(NamedTuple):
    """What a model made of the chunks.

    Attributes:
        questions: table of :data:`QUESTIONS`, in the order of the chunks.
        failures: chunk id -> why there is no question of it.
        counts: reason -> how many questions were dropped.
        unanswered: reason -> of how many chunks the model said nothing, not even that it refuses.
        n_later: for how many of these the same request may succeed later.
    """

    questions: pa.Table
    failures: dict[str, str]
    counts: Mapping[str, int]
    unanswered: Counter[str]
    n_later: int


def question_requests(chunks: pa.Table, options: QuestionOptions) -> list[ChatRequest]:
    """Return what would be asked, one request a chunk: for an estimate."""
    template = options.question_prompt()
    values = {"n": options.n, "language": options.language}
    sampling = (options.temperature, options.seed, options.max_tokens, template.label)
    return [
        ChatRequest(template.filled({**values, "title": title, "text": text}), *sampling)
        for title, text in column_values(chunks, "title", "text")
    ]


def generate_questions(
    chunks: pa.Table, options: QuestionOptions, completions: Completions
) -> GeneratedQuestions:
    """Ask for questions about every chunk and drop those that are no use.

    Raises:
        BudgetReached: the limits allow no more; what was answered is in the cache.
        ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
    """
    answers = completions.answer(question_requests(chunks, options))
    model = dict(completions.model.identity).get("model", "")
    source = f"{model} {options.question_prompt().label}".strip()
    failures: dict[str, str] = {}
    rows: list[dict[str, object]] = []
    dropped: Counter[str] = Counter()
    places = chunks.select(["chunk_id", "document_id", "start", "end"]).to_pylist()
    for place, text, answer in zip(places, chunks["text"].to_pylist(), answers, strict=True):
        questions = parsed_questions(answer, options.n)
        if isinstance(questions, Unusable):
            failures[place["chunk_id"]] = questions.reason
            continue
        words = question_words(text)
        for question in questions:
            if reason := fault(question.text, question.answer, words, options):
                dropped[reason] += 1
                continue
            query_id = f"gen-{permanent_hash(question.text, place['chunk_id']).hex()[:16]}"
            rows.append({"query_id": query_id, **place, **question._asdict(), "source": source})
    bags = [frozenset(question_words(str(row["text"]))) for row in rows]
    alike = near_earlier(bags, options.near_duplicate)
    dropped.update([NEAR_DUPLICATE] * len(alike))
    different = [row for number, row in enumerate(rows) if number not in alike]
    failed = [answer for answer in answers if isinstance(answer, Failed)]
    open_ones = Counter(answer.reason for answer in failed), sum(one.retryable for one in failed)
    return GeneratedQuestions(QUESTIONS.from_rows(different), failures, dropped, *open_ones)


class Question(NamedTuple):
    """A question and, where the model gave one, its answer."""

    text: str
    answer: str | None


def parsed_questions(answer: Answer, at_most: int) -> list[Question] | Unusable:
    """Return the questions of an answer: JSON objects, also one a line, or any list of texts.

    Objects are read one by one, so a broken or half one costs only itself.
    """
    text = usable_text(answer)
    if isinstance(text, Unusable):
        return text
    questions = [question for part in _OBJECT.findall(text) if (question := _question(part))]
    if not questions and "{" not in text:
        if isinstance(listed := parsed_list(answer, "", at_most), Unusable):
            return listed
        questions = [Question(item, None) for item in listed]
    return questions[:at_most] or Unusable("the answer holds no question")


def _question(part: str) -> Question | None:
    try:
        value = json.loads(part, strict=False)
    except ValueError:
        return None
    question = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), "")
    text = " ".join(question.split())
    answer = value.get("answer")
    plain = " ".join(answer.split()) if isinstance(answer, str) else ""
    return Question(text, plain or None) if text else None


def fault(
    question: str, answer: str | None, chunk: list[str], options: QuestionOptions
) -> str | None:
    """Return why a question is dropped, the first of :data:`REASONS` that holds; None: it is kept.

    Near duplicates are found among all questions, by :func:`near_earlier`. ``chunk`` are the words
    of the chunk that it was made from; each CJK character is one. A question is a copy, which any
    lexical search finds, where the chunk holds more than ``max_copied`` of its runs of words too.
    """
    words = question_words(question)
    if len(words) < options.min_words:
        return TOO_SHORT
    if not _QUESTION_MARK.search(question):
        return NOT_A_QUESTION
    if _ABOUT.search(question) or _ABOUT_CJK.search(question):
        return ABOUT_THE_PASSAGE
    if copied_share(words, chunk, COPIED_WORDS) > options.max_copied:
        return COPIED
    if (answer or "").casefold().strip(". ") in _PLAIN_ANSWERS:
        return None
    return ANSWER_INSIDE if contains_words(words, question_words(answer or "")) else None


def near_earlier(questions: Sequence[frozenset[str]], threshold: float) -> dict[int, int]:
    """Return for each question that is to be dropped the earlier one that it is like.

    A question, given as its words, is compared with those before it that are kept themselves; one
    without words is like none. ``threshold`` is the lowest similarity, above 0, at most 1.
    """
    distinct: list[int] = []
    dropped: dict[int, int] = {}
    for number, question in enumerate(questions):
        like = (c for c in distinct if _alike(question, questions[c], threshold))
        first = next(like, None) if question else None
        if first is not None:
            dropped[number] = first
        elif question:
            distinct.append(number)
    return dropped


def _alike(a: frozenset[str], b: frozenset[str], threshold: float) -> bool:
    shared = len(a & b)
    if shared < threshold * (len(a) + len(b) - shared):
        return False
    return not any(character.isdigit() for word in a ^ b for character in word)


def question_words(text: str) -> list[str]:
    """Return the words of a text in order, lower-cased; each CJK character is a word."""
    return [part for word in words(text) for part in split_cjk(word)]


def copied_share(question: list[str], text: list[str], n: int) -> float:
    """Return the share of the question's runs of ``n`` words that stand in the text as well.

    0 for a question of fewer words.
    """
    grams = [tuple(question[start : start + n]) for start in range(len(question) - n + 1)]
    if not grams:
        return 0.0
    text_grams = {tuple(text[start : start + n]) for start in range(len(text) - n + 1)}
    return sum(gram in text_grams for gram in grams) / len(grams)


def contains_words(text: list[str], part: list[str]) -> bool:
    """Return whether ``part``, not empty, stands in ``text`` as one run of words."""
    size = len(part)
    starts = range(len(text) - size + 1)
    return bool(part) and any(text[start : start + size] == part for start in starts)


MAX_REASONS = 5
"""Reasons why chunks have no question that are told, those of most chunks."""


class GeneratedQuestionsStage(Stage):
    """Questions that a language model wrote from chunks of the documents.

    What was answered of a chunk is asked for once, so an edited document costs its own chunks.
    """

    name = "generated_questions"
    made_for = "questions"
    schema = QUESTIONS
    row = "One question that a language model wrote from a chunk, with the chunk's place."
    group = "data"

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [Input("chunks", chunks_key(str(_options(experiment).chunking)))]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        options = _options(context.experiment)
        model = asked_config(context.experiment, options.llm, options.question_prompt())
        named = {*options.file_options, "llm", "chunking"}  # their names determine nothing
        return {**options.model_dump(mode="json", exclude=named), **model}

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        return [_options(experiment).llm]

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        options = _options(context.experiment)
        chunks = _chosen(context, options)
        with context.completions("ask for questions", chunks.num_rows, options.llm) as completions:
            generated = generate_questions(chunks, options, completions)
            served = completions.served_models
        facts: dict[str, Any] = {"n_chunks": chunks.num_rows, "notes": _notes(generated)}
        if not generated.questions.num_rows:
            lost = "; ".join(facts["notes"]) or "none was chosen"
            problem = f"no question is left of {chunks.num_rows} chunks: {lost}"
            raise DataError(problem, file=context.experiment.source, key="questions")
        facts |= {N_LATER: generated.n_later, **asked_facts(generated.unanswered.total(), served)}
        return TableProduct(generated.questions, facts, generated.failures)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        line = llm_line(context.experiment, _options(context.experiment).llm)
        if line is None:
            return NO_WORK
        if any(context.current(item.key) is None for item in self.inputs(context.experiment, key)):
            return llm_work([replace(line, questions=0)])
        needs = needed_requests(context)
        return llm_work([line.needing(needs, questions=0, passages=needs.calls)])


def needed_requests(context: StageContext) -> Estimate:
    """Return what the questions would need, the chunks being up to date; asks nothing."""
    options = _options(context.experiment)
    return needed(context, options.llm, question_requests(_chosen(context, options), options))


def _chosen(context: StageContext, options: QuestionOptions) -> pa.Table:
    return options.chosen_chunks(context.artifact(chunks_key(str(options.chunking))).table())


def _notes(generated: GeneratedQuestions) -> list[str]:
    """Return how many questions were dropped, and how many chunks have none, with the reasons."""
    dropped = [f"{n} dropped: {reason}" for reason, n in sorted(generated.counts.items())]
    useless = Counter(generated.failures.values()) - generated.unanswered
    for what, reasons in (("an answer", generated.unanswered), ("a question", useless)):
        for reason, n in reasons.most_common(MAX_REASONS):
            dropped.append(f"chunks without {what}: {n} ({reason})")
    return dropped


def _options(experiment: Experiment) -> QuestionOptions:
    if experiment.questions is None:
        raise TypeError(f"{experiment.name} generates no questions")
    return experiment.questions
