"""Where to refuse by the no-answer score, how long answers are, and what writing them took."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.analysis.answers import answer_rows, answers_sheet, threshold_sheets
from rag_assets.answers.stage import answer_metrics, answers_key
from rag_assets.answers.thresholds import Scored, best_threshold, reported, scored
from rag_assets.assets.metadata import result_of
from rag_assets.evaluation.dialects.squad_v2_official import official_scores
from rag_assets.report.evaluation_table import EvaluationTable
from rag_assets.report.html import render
from tests.answers.answering import GOLDS, PREDICTIONS, with_answers
from tests.answers.made_answers import answer_table, gold_table
from tests.llm.server import says, serving
from tests.tiny_experiment import Tiny, damage, set_cell

NA_PROBS = {"q1": 0.1, "q2": 0.8, "q3": 0.95, "q4": 0.2, "q5": 0.3, "q6": 0.4, "q7": 0.7}
GIVEN = {**PREDICTIONS, "q5": "never said", "q7": "Captain Nemo of the Nautilus"}
TEXTS = {**{name: tuple(texts) for name, texts in GOLDS.items()}, "q7": ()}


def evaluated(folder: Path, computed: Tiny, **changes: Any) -> tuple[Tiny, EvaluationTable]:
    tiny = Tiny(folder).start_from(computed).write()
    lines = [
        {"query_id": name, "answer": text, "na_prob": NA_PROBS[name]}
        for name, text in GIVEN.items()
    ]
    tiny.write_rows("predictions.jsonl", lines)
    file = {"predicted": {"type": "file", "path": "predictions.jsonl"}}
    one = {"official": {"generator": "predicted"}}
    with_answers(tiny, generators=file, answers=one, **changes).run()
    return tiny, EvaluationTable(tiny.artifacts, tiny.snapshot())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, computed: Tiny) -> tuple[Tiny, EvaluationTable]:
    return evaluated(tmp_path_factory.mktemp("refusals") / "tiny", computed)


def test_values_are_those_of_the_official_script(whole: tuple[Tiny, EvaluationTable]) -> None:
    """Without ties both find the same questions to refuse; the script gives percent."""
    _, result = whole
    (sheet,) = threshold_sheets(result)
    official = official_scores(TEXTS, GIVEN, NA_PROBS)
    plain = official_scores(TEXTS, GIVEN)
    for row, name in zip(sheet.rows, ("exact", "f1"), strict=True):
        assert row["value"] == pytest.approx((official.values[f"best_{name}"] or 0) / 100)
        assert row["as_it_is"] == pytest.approx((plain.values[name] or 0) / 100)
        limit = official.values[f"best_{name}_thresh"] or 0
        assert row["threshold"] >= limit  # of equally good ones ours answers most
        with_ours = official_scores(TEXTS, GIVEN, NA_PROBS, row["threshold"])
        assert with_ours.values[name] == official.values[f"best_{name}"]
        refused = [q for q, prob in NA_PROBS.items() if prob > row["threshold"]]
        assert row["answerer"] == next(iter(result.answer_metrics))
        assert row["n_taken_back"] == len(refused)
        assert row["chosen_on"] == "all"
    assert [row["metric"] for row in sheet.rows] == ["EM", "F1"]


def test_it_is_chosen_on_dev_and_reported_on_test(tmp_path: Path, computed: Tiny) -> None:
    tiny, result = evaluated(tmp_path, computed, split={"dev": 0.5, "seed": 2})
    (sheet,) = threshold_sheets(result)
    assert {row["chosen_on"] for row in sheet.rows} == {"dev"}
    dev, test = ({*result.weights(split)} for split in ("dev", "test"))
    assert dev
    assert test
    for row, name in zip(sheet.rows, ("exact", "f1"), strict=True):
        of_dev = official_scores({q: TEXTS[q] for q in dev}, GIVEN, NA_PROBS)
        best = (of_dev.values[f"best_{name}"] or 0) / 100
        numbers = {"all refuse": -1.0, "none refuses": 2.0}
        threshold = row["threshold"]
        limit = numbers[threshold] if threshold in numbers else float(threshold)

        def value(ids: set[str], limit: float = limit, name: str = name) -> float:
            scores = official_scores({q: TEXTS[q] for q in ids}, GIVEN, NA_PROBS, limit)
            return (scores.values[name] or 0) / 100

        assert value(dev) == pytest.approx(best)
        assert row["value"] == pytest.approx(value(test))
    assert tiny.command("leaderboard", ".", columns=150).exit_code == 0


@pytest.mark.parametrize("word", ["none refuses", "all refuse"])
def test_a_threshold_that_is_a_word_has_no_bar(
    whole: tuple[Tiny, EvaluationTable], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    limit = {"none refuses": math.inf, "all refuse": -math.inf}[word]
    monkeypatch.setattr("rag_assets.analysis.answers.best_threshold", lambda _: limit)
    _, result = whole
    for face in (render(result), str(result)):
        assert word in face


def test_all_faces_show_it(whole: tuple[Tiny, EvaluationTable]) -> None:
    tiny, result = whole
    for face in (render(result), str(result), tiny.command("leaderboard", ".", columns=150).output):
        assert "when to refuse" in face.lower()
        assert "taken back" in face
    assert len(result_of(tiny.pipeline())["when to refuse"].value.records) == 2  # type: ignore[union-attr]


def test_answers_are_long_against_the_right_ones(whole: tuple[Tiny, EvaluationTable]) -> None:
    _, result = whole
    (row,) = answer_rows(result)
    given = {name: text for name, text in GIVEN.items() if text}
    assert row["answer_length"] == pytest.approx(sum(map(len, given.values())) / len(given))
    pairs = [(len(text), max(map(len, GOLDS[q]))) for q, text in given.items() if GOLDS.get(q)]
    assert row["length_of_gold"] == pytest.approx(
        sum(length for length, _ in pairs) / sum(gold for _, gold in pairs)
    )
    assert (row["answer_tokens"], row["n_cut"]) == (None, 0)
    sheet = answers_sheet(result)
    assert sheet is not None
    assert "cut" not in [column.title for column in sheet.visible]


def test_refusals_in_words_have_no_length(
    whole: tuple[Tiny, EvaluationTable], tmp_path: Path
) -> None:
    evaluated, _ = whole
    tiny = evaluated.copy_to(tmp_path / "tiny")
    refusal = "I don't know when the last ferry leaves in winter, the passages do not say."
    said = {name: text for name, text in GIVEN.items() if text} | {"q5": refusal}
    rows = [{"query_id": name, "answer": text} for name, text in said.items()]
    tiny.write_rows("predictions.jsonl", rows)
    tiny.run()
    (row,) = answer_rows(EvaluationTable(tiny.artifacts, tiny.snapshot()))
    given = {name: text for name, text in said.items() if text != refusal}
    assert row["answer_length"] == pytest.approx(sum(map(len, given.values())) / len(given))
    golds = {name: max(map(len, GOLDS[name])) for name in given if GOLDS.get(name)}
    lengths = sum(len(given[name]) for name in golds)
    assert row["length_of_gold"] == pytest.approx(lengths / sum(golds.values()))


def test_answers_that_were_cut_are_counted(
    whole: tuple[Tiny, EvaluationTable], tmp_path: Path
) -> None:
    """As a server that counts tokens and ends at max_tokens says."""
    evaluated, result = whole
    tiny = evaluated.copy_to(tmp_path / "tiny")
    key = answers_key(next(iter(result.answer_metrics)))
    damage(tiny, key, set_cell("finish_reason", 0, "length"))
    damage(tiny, key, set_cell("prompt_tokens", 0, 30))
    damage(tiny, key, set_cell("completion_tokens", 0, 12))
    result = EvaluationTable(tiny.artifacts, tiny.snapshot())
    (row,) = answer_rows(result)
    assert (row["n_cut"], row["answer_tokens"]) == (1, 42)
    sheet = answers_sheet(result)
    assert sheet is not None
    assert {"cut", "tokens", "x gold"} <= {column.title for column in sheet.visible}
    assert json.loads(tiny.command("leaderboard", ".", "--answers", "--format", "json").stdout)


WORDS = 3
REQUEST_TOKENS = 10  # as the server counts


def test_tokens_money_and_seconds_of_a_model(tmp_path: Path, computed: Tiny) -> None:
    small = Tiny(tmp_path).start_from(computed).write()
    with serving() as server:
        server.on("", says("beside the bridge"))
        llm: dict[str, object] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
        llm |= {"prompt_price": 2.0, "completion_price": 5.0}
        with_answers(
            small,
            llm=llm,
            generators={"written": {"type": "llm"}},
            answers={"plain": {"generator": "written", "retriever": "bm25", "top_k": [3]}},
        )
        small.run()
        small.snapshot()
        n_asked = len(server.received)
        assert len(small.rows(answers_key("plain@3"))) == n_asked == 7
        board = small.command("leaderboard", ".", "--answers", "--format", "json").stdout
        row = next(one for one in json.loads(board) if one["answerer"] == "plain")
        assert row["answer_tokens"] == REQUEST_TOKENS + WORDS
        price = (REQUEST_TOKENS * 2.0 + WORDS * 5.0) / 1_000_000
        assert row["answer_cost"] == pytest.approx(price, rel=1e-12)
        assert row["answer_seconds"] > 0
        shown = small.command("leaderboard", ".", "--answers", columns=160).stdout.split()
        assert {"money", "seconds"} <= {*shown}
        llm["completion_price"] = 50.0  # counts from the next evaluation on, and asks nothing again
        small.write_config()
        small.run()
        small.snapshot()
        assert len(server.received) == n_asked
    history = ("history", ".", "--metric", "answer_cost", "--format", "json")
    values = [one["value"] for one in json.loads(small.command(*history).stdout)]
    later = (REQUEST_TOKENS * 2.0 + WORDS * 50.0) / 1_000_000
    assert values == pytest.approx([price, later], rel=1e-12)
    refused = small.command("compare", ".", "--metric", "answer_cost")
    assert "exists only for all answers together" in refused.output


RIGHT, ANSWERED = (1.0, 0.0), (0.0, 1.0)
"""(value as answered, value when taken back): answerable and right; unanswerable and answered."""


def value(questions: Sequence[Scored], threshold: float) -> Fraction:
    return sum(
        (
            Fraction(one.weight)
            * Fraction(
                one.refused if one.score is not None and one.score > threshold else one.answered
            )
            for one in questions
        ),
        Fraction(),
    )


@pytest.mark.parametrize("tie", [0.5, 0.0])
def test_ties_are_not_split(tie: float) -> None:
    """The official script claims 100 % for these: see the tests of its dialect."""
    questions = [Scored(tie, *RIGHT), Scored(tie, *ANSWERED), Scored(0.9, *ANSWERED)]
    row = reported(questions, best_threshold(questions))
    assert tie < row["threshold"] < 0.9
    assert row["value"] == pytest.approx(2 / 3)
    assert row["as_it_is"] == pytest.approx(1 / 3)
    assert row["n_taken_back"] == 1


def test_the_ends_and_equal_thresholds() -> None:
    """Taking back c alone, or c, b and a, gives as much."""
    assert best_threshold([Scored(0.0, *ANSWERED), Scored(0.0, *ANSWERED)]) == -math.inf
    assert best_threshold([Scored(0.0, *RIGHT), Scored(1.0, *RIGHT)]) == math.inf
    assert best_threshold([Scored(None, *ANSWERED)]) == math.inf
    assert best_threshold([]) == math.inf
    questions = [Scored(0.1, *ANSWERED), Scored(0.2, *RIGHT), Scored(0.3, *ANSWERED)]
    assert 0.2 < best_threshold(questions) < 0.3


@pytest.mark.parametrize("low", [0.1, math.nextafter(0.1, 1), 0.0, -0.1])
def test_neighbouring_floats(low: float) -> None:
    """Half of their distance is rounded down or up."""
    high = math.nextafter(low, 1)
    assert low <= best_threshold([Scored(low, *RIGHT), Scored(high, *ANSWERED)]) < high


VALUES = st.sampled_from([0.0, 0.25, 1 / 3, 0.8, 1.0])
QUESTIONS = st.lists(
    st.builds(
        Scored,
        st.none() | st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]),
        VALUES,
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    max_size=8,
)


@given(QUESTIONS)
def test_no_threshold_is_better(questions: list[Scored]) -> None:
    best = best_threshold(questions)
    known = sorted({one.score for one in questions if one.score is not None})
    for other in (-math.inf, *known, *(score - 0.01 for score in known), math.inf):
        assert value(questions, best) >= value(questions, other)


def test_from_tables() -> None:
    """Right, unanswerable and answered, failed, without a gold answer."""
    answers = answer_table({"a": "x", "b": "y", "c": None, "d": "z"}, score={"a": 0.1, "b": 0.7})
    golds = gold_table({"a": ["x"], "b": [], "c": [], "d": []}, unanswerable=("b", "c"))
    metrics = answer_metrics(answers, golds, None, ["answer_em"])
    weights = {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0}
    assert scored(answers, metrics, "answer_em", weights) == [
        Scored(0.1, 1.0, 0.0, 2.0),
        Scored(0.7, 0.0, 1.0),
        Scored(None, 0.0, 0.0),
    ]
    assert scored(answers, metrics, "answer_em", {"b": 1.0}) == [Scored(0.7, 0.0, 1.0)]
