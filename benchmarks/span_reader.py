"""A linear span reader: answers a question with words of a passage, offline and without a model.

Every span of up to 10 tokens inside a sentence is a candidate. Its score is a sum of learned
weights of hashed features, and the best candidate of all passages is the answer:

    score(i, j) = first(i) + last(j) + sum of inside(k) for k in i..j + span(i, j)

Features are words, shapes and endings, neighbours, length, and where the question's words stand
around the span, each alone and together with the question's kind and subject. Training minimises
-log of the share that the annotated spans have of the softmax over all candidates: the log-linear
baseline of Rajpurkar, Zhang, Lopyrev and Liang (SQuAD: 100,000+ Questions for Machine Comprehension
of Text, EMNLP 2016, section 5), without its parse trees. The candidates are those of the question's
own passage and of a hard negative, a passage of other questions that shares its rare words, in one
softmax (the shared normalisation of Clark and Gardner, Simple and Effective Multi-Paragraph Reading
Comprehension, ACL 2018), which makes scores comparable between passages. Steps are those of AdaGrad
(Duchi, Hazan and Singer, JMLR 12, 2011); the weights are the mean over all steps.

Equal examples and seeds give equal bytes on one machine. The reader cannot refuse: it answers
wherever a passage has a word, and its score hardly tells whether the answer is there at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from span_features import (
    N_WEIGHTS,
    Candidates,
    SpanFeatures,
    candidates_of,
    span_features,
)
from span_tokens import (
    Array,
    PassageTokens,
    QuestionWords,
    inverse_frequencies,
    nearest_sentences,
    passage_tokens,
    question_words,
    rarity,
)

from rag_assets.answers.extractive import NO_ANSWER, SpanAnswer

_BATCH, _EPOCHS, _RATE = 16, 3, 0.1


@dataclass(frozen=True)
class Example:
    """A question, its passage, and where in the passage its answers stand.

    ``answers`` are (start, end) in characters; any of them is right, none: nothing is learned.
    """

    question: str
    passage: str
    answers: Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class SpanReader:
    """What :func:`train` learned."""

    weights: npt.NDArray[np.float32]
    idf: npt.NDArray[np.float32]
    n_questions: int
    """How many it was learned from."""

    def answer(self, question: str, passages: Sequence[str]) -> SpanAnswer:
        """Return the best span of all passages; of equal ones, the first."""
        return self.answers([question], [passages])[0]

    def answers(
        self, questions: Sequence[str], contexts: Sequence[Sequence[str]]
    ) -> list[SpanAnswer]:
        """Return the answer to each question from its own passages, the same as to it alone.

        It takes 1 to 3 ms a passage of 150 words; recent passages are not read again.
        """
        tokens_of = lru_cache(maxsize=256)(passage_tokens)
        return [
            _best(self._spans(question_words(question), passages, map(tokens_of, passages)))
            for question, passages in zip(questions, contexts, strict=True)
        ]

    def _spans(
        self, question: QuestionWords, texts: Sequence[str], passages: Iterable[PassageTokens]
    ) -> Iterator[SpanAnswer]:
        """Yield the best span of each passage that has a candidate."""
        for number, (text, passage) in enumerate(zip(texts, passages, strict=True)):
            nearest = nearest_sentences(passage, question, self.idf)
            if not candidates_of(nearest).first.size:
                continue
            features = span_features(question, nearest, self.idf)
            scores = _scores(features, self.weights)
            at = int(scores.argmax())
            start = int(nearest.starts[features.candidates.first[at]])
            end = int(nearest.ends[features.candidates.last[at]])
            yield SpanAnswer(text[start:end], number, start, end, float(scores[at]))


def train(examples: Sequence[Example], *, seed: int = 0, negatives: int = 3) -> SpanReader:
    """Learn from questions whose answers are marked; 5 to 10 ms each on one core.

    An example whose answer is no candidate (too long, or across sentences) is not learned from.

    Args:
        examples: questions with their passages; hard negatives are passages of the others.
        seed: decides the order, and which negative is seen.
        negatives: in each epoch, a question's hard negative is drawn from so many. With 0 there is
            none: scores then say little across passages, and more passages make worse answers.
    """
    passages = {example.passage: passage_tokens(example.passage) for example in examples}
    idf = inverse_frequencies(passages.values())
    lessons = []
    for example in examples:
        question = question_words(example.question)
        passage = nearest_sentences(passages[example.passage], question, idf)
        right = _right(candidates_of(passage), passage, example.answers)
        if right.any():
            lessons.append((question, passage, right, example.passage))
    own = [(question, text) for question, _, _, text in lessons]
    others = _hard_negatives(own, passages, idf, negatives)
    weights = np.zeros(N_WEIGHTS, np.float32)
    sums, squares = np.zeros(N_WEIGHTS), np.ones(N_WEIGHTS)
    draw = np.random.Generator(np.random.PCG64(seed))
    n_batches = math.ceil(len(lessons) / _BATCH)
    for _ in range(_EPOCHS if lessons else 0):
        for batch in np.array_split(draw.permutation(len(lessons)), n_batches):
            gradient = _Gradient()
            for number in batch:
                question, passage, right, _ = lessons[number]
                shown = [span_features(question, passage, idf)]
                if others[number]:
                    other = others[number][draw.integers(len(others[number]))]
                    other = nearest_sentences(other, question, idf)
                    shown.append(span_features(question, other, idf))
                gradient.add(shown, right, weights)
            step = gradient.total()
            squares += step * step
            weights -= (_RATE * step / np.sqrt(squares)).astype(np.float32)
            sums += weights
    mean = sums / max(_EPOCHS * n_batches, 1)
    return SpanReader(mean.astype(np.float32), idf, len(lessons))


def _best(answers: Iterator[SpanAnswer]) -> SpanAnswer:
    return max(answers, key=lambda answer: answer.score, default=NO_ANSWER)


def _right(
    candidates: Candidates, passage: PassageTokens, spans: Sequence[tuple[int, int]]
) -> Array:
    """Return which candidates are the tokens of one of the spans, no more and no less."""
    right = np.zeros(candidates.first.size, bool)
    for start, end in spans:
        first = np.searchsorted(passage.ends, start, side="right")
        last = np.searchsorted(passage.starts, end, side="left") - 1
        right |= (candidates.first == first) & (candidates.last == last)
    return right


def _hard_negatives(
    questions: Sequence[tuple[QuestionWords, str]],
    passages: Mapping[str, PassageTokens],
    idf: Array,
    most: int,
) -> list[list[PassageTokens]]:
    """Return for each question the passages besides its own that share most, by rarity."""
    numbers = {text: number for number, text in enumerate(passages)}
    tokens = list(passages.values())
    holders: dict[int, list[int]] = {}
    for number, passage in enumerate(tokens):
        for stem in np.unique(passage.stem).tolist():
            holders.setdefault(stem, []).append(number)
    negatives = []
    for question, own in questions:
        scores = np.zeros(len(tokens))
        for stem, weight in zip(question.stems.tolist(), rarity(question.stems, idf), strict=True):
            scores[holders.get(stem, [])] += weight
        scores[numbers[own]] = 0
        order = np.argsort(-scores, kind="stable")[:most]
        nearest = [tokens[number] for number in order if scores[number] > 0]
        negatives.append([passage for passage in nearest if candidates_of(passage).first.size])
    return negatives


def _scores(features: SpanFeatures, weights: Array) -> Array:
    first, last = features.candidates
    begin = weights[features.first].sum(axis=0)
    end = weights[features.last].sum(axis=0)
    inside = np.append(0, np.cumsum(weights[features.inside].sum(axis=0)))
    span = weights[features.span].sum(axis=0)
    scores: Array = begin[first] + end[last] + inside[last + 1] - inside[first] + span
    return scores


class _Gradient:
    """Of the sum of the losses of some questions, by the weights."""

    def __init__(self) -> None:
        self._places: list[Array] = []
        self._values: list[Array] = []

    def add(self, passages: Sequence[SpanFeatures], right: Array, weights: Array) -> None:
        """Add a question; ``right`` are candidates of the first passage.

        By a candidate's score: its probability among all, less that among the right ones.
        """
        scores = np.concatenate([_scores(features, weights) for features in passages])
        of_right = scores[: right.size][right]
        by_score = np.exp(scores - scores.max())
        by_score /= by_score.sum()
        odds = np.exp(of_right - of_right.max())
        by_score[: right.size][right] -= odds / odds.sum()
        edges = np.cumsum([features.candidates.first.size for features in passages])
        for features, values in zip(passages, np.split(by_score, edges[:-1]), strict=True):
            self._add_passage(features, values)

    def _add_passage(self, features: SpanFeatures, by_score: Array) -> None:
        n_tokens = features.first.shape[1]
        starting = np.bincount(features.candidates.first, by_score, n_tokens + 1)
        ending = np.bincount(features.candidates.last + 1, by_score, n_tokens + 1)
        for places, values in (
            (features.first, starting[:n_tokens]),
            (features.last, ending[1:]),
            (features.inside, np.cumsum(starting - ending)[:n_tokens]),
            (features.span, by_score),
        ):
            self._places.append(places.ravel())
            self._values.append(np.broadcast_to(values, places.shape).ravel())

    def total(self) -> Array:
        """Return it for all weights."""
        values = np.concatenate(self._values)
        return np.bincount(np.concatenate(self._places), values, minlength=N_WEIGHTS)
