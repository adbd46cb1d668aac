"""The span reader: equal bytes, what it learns, and texts that it must not stumble over."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.answers.span_features import span_features
from rag_assets.answers.span_reader import (
    NO_ANSWER,
    Example,
    SpanAnswer,
    SpanReader,
    _Gradient,
    _scores,
    best_sentence,
    train,
)
from rag_assets.answers.span_tokens import (
    MOST_TOKENS,
    inverse_frequencies,
    nearest_sentences,
    passage_tokens,
    question_words,
)
from rag_assets.errors import DataError

PEOPLE = ["Ada Byron", "Emil Post", "Grace Murray", "Kurt Berg", "Sofia Lund", "Rosa Peter"]
THINGS = ["bridge", "harbour", "tower", "railway", "theatre", "lighthouse", "library", "market"]


def planted(n: int, seed: int) -> list[Example]:
    """Make questions with "when", answered by the year of one sentence, and "who", by its name."""
    draw = random.Random(seed)
    examples = []
    for _ in range(n):
        sentences, facts = [], {}
        for thing in draw.sample(THINGS, 4):
            year, person = str(draw.randint(1200, 1999)), draw.choice(PEOPLE)
            sentences.append(f"The old {thing} was built in {year} by {person} for the town.")
            facts[thing] = {"When": year, "Who": person}
        passage, thing = " ".join(sentences), draw.choice(list(facts))
        word = draw.choice(["When", "Who"])
        question = f"{word} was the {thing} built?" if word == "When" else f"Who built the {thing}?"
        start = passage.index(facts[thing][word], passage.index(f"old {thing}"))
        examples.append(Example(question, passage, [(start, start + len(facts[thing][word]))]))
    return examples


def gold(example: Example) -> list[str]:
    return [example.passage[start:end] for start, end in example.answers]


@pytest.fixture(scope="module")
def reader() -> SpanReader:
    return train(planted(100, seed=1))


def test_it_learns_a_planted_rule(reader: SpanReader) -> None:
    unseen = planted(100, seed=2)
    answers = reader.answers([one.question for one in unseen], [[one.passage] for one in unseen])
    right = [answer.text in gold(one) for answer, one in zip(answers, unseen, strict=True)]
    assert fmean(right) > 0.95


def test_equal_examples_and_seeds_are_equal_bytes(tmp_path: Path) -> None:
    for name, seed in (("first", 3), ("again", 3), ("other", 4)):
        train(planted(20, seed=5), seed=seed).save(tmp_path / name)
    first, again, other = ((tmp_path / name).read_bytes() for name in ("first", "again", "other"))
    assert first == again
    assert first != other


def of_towns(n: int, seed: int) -> list[Example]:
    """Make planted questions of which only the first sentence of a passage says the town."""
    draw = random.Random(seed)
    examples = []
    for one in planted(n, seed):
        town = "".join(draw.choices("abdegiklmnoprstu", k=7)).title()
        head = f"This is about {town}. "
        spans = [(start + len(head), end + len(head)) for start, end in one.answers]
        question = f"{one.question[:-1]} in {town}?"
        examples.append(Example(question, head + one.passage, spans))
    return examples


@pytest.mark.slow
def test_hard_negatives_make_scores_comparable() -> None:
    """Without them nothing says that a passage about another town does not count."""
    unseen = of_towns(40, seed=11)
    questions = [one.question for one in unseen]
    contexts = [[one.passage for one in unseen]] * len(unseen)
    right = [
        _exact(unseen, train(of_towns(100, seed=12), negatives=n).answers(questions, contexts))
        for n in (0, 3)
    ]
    assert right[0] < right[1] == 1


def test_a_saved_reader_is_the_same(reader: SpanReader, tmp_path: Path) -> None:
    reader.save(tmp_path / "reader")
    loaded = SpanReader.load(tmp_path / "reader")
    assert np.array_equal(loaded.weights, reader.weights)
    assert np.array_equal(loaded.idf, reader.idf)
    assert loaded.n_questions == reader.n_questions == 100
    one = planted(1, seed=6)[0]
    assert loaded.answer(one.question, [one.passage]) == reader.answer(one.question, [one.passage])


@pytest.mark.parametrize("content", [b"", b"no reader", b"PK\x03\x04 cut off"])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=r"file.*span reader"):
        SpanReader.load(tmp_path / "file")


def test_arrays_of_something_else_and_no_file_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "other").open("wb") as file:
        np.savez(file, weights=np.zeros(3), idf=np.zeros(3), n_questions=1)
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("other", "array.npy", "absent"):
        with pytest.raises(DataError, match=name):
            SpanReader.load(tmp_path / name)


def test_an_answer_says_where_it_stands(reader: SpanReader) -> None:
    passages = ["", "Nothing of that here.", planted(1, seed=7)[0].passage]
    question = planted(1, seed=7)[0].question
    answer = reader.answer(question, passages)
    assert answer.text == passages[answer.passage][answer.start : answer.end] != ""
    assert answer.passage == 2
    alone = [reader.answer(question, [passage]) for passage in passages[1:]]
    assert answer.score == max(one.score for one in alone)


def test_together_and_alone_are_equal(reader: SpanReader) -> None:
    questions = [one.question for one in planted(8, seed=8)]
    contexts = [[one.passage for one in planted(3, seed=n)] for n in range(8)]
    alone = [reader.answer(*both) for both in zip(questions, contexts, strict=True)]
    assert reader.answers(questions, contexts) == alone


def test_the_gradient_is_that_of_the_loss() -> None:
    """Against differences of the loss itself, in double precision."""
    first, other = planted(2, seed=9)
    question = question_words(first.question)
    tokens = [passage_tokens(one.passage) for one in (first, other)]
    idf = inverse_frequencies(tokens)
    features = [span_features(question, one, idf) for one in tokens]
    right = np.zeros(features[0].candidates.first.size, bool)
    right[[3, 40]] = True
    weights = np.random.default_rng(0).normal(0, 0.1, 1 << 18)

    def loss(weights: np.ndarray) -> float:
        scores = np.concatenate([_scores(one, weights) for one in features])
        odds = np.exp(scores)
        return float(np.log(odds.sum()) - np.log(odds[: right.size][right].sum()))

    gradient = _Gradient()
    gradient.add(features, right, weights)
    total = gradient.total()
    used = [one[row, 5] for one in features[0][1:] for row in (0, -1)] + [features[1].span[0, 9]]
    for place in used:
        step = np.zeros_like(weights)
        step[place] = 1e-5
        slope = (loss(weights + step) - loss(weights - step)) / 2e-5
        assert total[place] == pytest.approx(slope, abs=1e-7)


def test_scores_are_sums_over_the_tokens_of_a_span() -> None:
    example = planted(1, seed=10)[0]
    tokens = passage_tokens(example.passage)
    features = span_features(question_words("Who?"), tokens, inverse_frequencies([tokens]))
    weights = np.random.default_rng(1).normal(size=1 << 18)
    scores = _scores(features, weights)
    for number in (0, 17, len(scores) - 1):
        first, last = (int(column[number]) for column in features.candidates)
        expected = weights[features.first[:, first]].sum() + weights[features.last[:, last]].sum()
        expected += weights[features.inside[:, first : last + 1]].sum()
        expected += weights[features.span[:, number]].sum()
        assert scores[number] == pytest.approx(expected)


def test_an_answer_that_is_no_candidate_is_not_learned() -> None:
    passage = "One two three. Four five six."
    whole, part = (
        Example("What?", passage, [(0, len(passage))]),
        Example("What?", passage, [(1, 2)]),
    )
    assert train([whole, Example("What?", passage, [])]).n_questions == 0
    assert train([]).n_questions == 0
    assert train([part]).n_questions == 1  # its token is taken


def test_without_anything_learned_the_best_sentence_is_the_answer() -> None:
    passages = ["The sea is cold. Ducks swim.", "A bridge crosses the sea."]
    question = "What crosses the cold sea?"
    assert train([]).answer(question, passages) == best_sentence(question, passages)


@pytest.mark.parametrize("passages", [[], [""], [" \n\t"], ["", " "]])
def test_nothing_to_read_is_no_answer(passages: list[str], reader: SpanReader) -> None:
    assert reader.answer("Who?", passages) == best_sentence("Who?", passages) == NO_ANSWER


def test_a_passage_of_marks_alone(reader: SpanReader) -> None:
    assert reader.answer("Who?", ["... !!! ---"]) == NO_ANSWER


@given(question=st.text(max_size=40), passages=st.lists(st.text(max_size=200), max_size=3))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read(question: str, passages: list[str]) -> None:
    trained = _tiny()
    for answer in (trained.answer(question, passages), best_sentence(question, passages)):
        if answer != NO_ANSWER:
            assert answer.text == passages[answer.passage][answer.start : answer.end] != ""


def _tiny() -> SpanReader:
    return train([Example("Wann? 什么时候", "Im Mai 2001 é\u0301 😀 在二〇〇一年。", [(3, 11)])])


def test_one_example_is_enough() -> None:
    assert _tiny().n_questions == 1


@pytest.mark.parametrize(
    "text",
    ["word " * 100_000, "x" * 500_000, "." * 500_000, "在" * 170_000],
    ids=["words", "a word", "marks", "characters"],
)
def test_a_passage_of_a_megabyte_is_read_in_part(text: str, reader: SpanReader) -> None:
    needle = "The old bridge was built in 1444 by Ada Byron for the town."
    hay = f"{text}\n{needle}\n{text}"
    answer = reader.answer("When was the bridge built?", [hay])
    assert answer.text == "1444"
    question = question_words("When was the bridge built?")
    part = nearest_sentences(passage_tokens(hay), question, reader.idf)
    assert len(part.starts) <= MOST_TOKENS


def _exact(examples: Sequence[Example], answers: Sequence[SpanAnswer]) -> float:
    both = zip(examples, answers, strict=True)
    return fmean(answer.text in gold(example) for example, answer in both)


@pytest.mark.slow
def test_it_beats_the_best_sentence_on_squad(shared_data: Callable[[str], Path]) -> None:
    """Trained on the first articles, asked about the last ones."""
    file = shared_data("squad_train_part") / "train-part.json"
    paragraphs = json.loads(file.read_text(encoding="utf-8"))["data"][0]["paragraphs"]
    examples = [
        Example(
            question["question"],
            paragraph["context"],
            [(one["answer_start"], one["answer_start"] + len(one["text"]))],
        )
        for paragraph in paragraphs
        for question in paragraph["qas"]
        for one in question["answers"][:1]
    ]
    held_out = examples[-150:]
    trained = train(examples[:400])
    questions = [example.question for example in held_out]
    contexts = [[example.passage] for example in held_out]
    answers = trained.answers(questions, contexts)
    sentences = [best_sentence(*both) for both in zip(questions, contexts, strict=True)]
    assert _exact(held_out, answers) > 0.2
    assert _exact(held_out, sentences) < 0.02
    # The sentences are near: the fallback's use is as evidence.
    near = fmean(
        sentence.start <= example.answers[0][0] < sentence.end
        for example, sentence in zip(held_out, sentences, strict=True)
    )
    assert near > 0.6
