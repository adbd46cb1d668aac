from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.answer_text import normal_form
from rag_assets.answers.metrics import METRICS, token_f1
from rag_assets.answers.metrics_stage import answer_means, answer_metrics
from rag_assets.errors import UsageError
from rag_assets.evaluation.leaderboard import mean
from tests.answers.made_answers import answer_table, context_table, gold_table, one_question

SCORED = [
    (["Denver Broncos"], "Broncos of Denver", 0, 0.8),
    (["10th", "10th century"], "the 10th century AD", 0, 0.8),
    (["a b b c"], "b b b", 0, 2 / 3),
    (["25%"], "25 percent", 0, 2 / 3),
    (["The"], "", 1, 1),
    (["\u2014"], "", 0, 0),
    (["France"], "in France", 0, 2 / 3),
    (["France"], "france.", 1, 1),
    (["France"], "Spain", 0, 0),
    (["Paris", "France"], "the France", 1, 1),
]
"""Gold answers, answer, EM, F1; the first six are those of the official script."""


@pytest.mark.parametrize(("golds", "answer", "em", "f1"), SCORED)
def test_em_and_f1(golds: list[str], answer: str, em: float, f1: float) -> None:
    values = one_question(answer, golds)
    assert [values["answer_em"], values["answer_f1"]] == pytest.approx([em, f1], abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "value"),
    [("", 1), ("the", 1), ("No answer.", 1), ("I do not know", 1), ("Spain", 0), (None, 0)],
)
def test_an_unanswerable_question_wants_a_refusal(answer: str | None, value: float) -> None:
    values = one_question(answer, answerable=False)
    assert values["answer_em"] == values["answer_f1"] == value


def test_a_refusal_has_no_word_in_common_with_an_answer() -> None:
    """Word for word, `no answer` and the gold answer share one."""
    values = one_question("no answer", ["the answer of 1998"])
    assert (values["answer_f1"], values["abstained"]) == (0, 1)


def test_a_phrase_that_is_the_right_answer_does_not_refuse() -> None:
    values = one_question("Unknown", ["unknown", "not known"])
    assert (values["answer_em"], values["abstained"]) == (1, 0)
    assert one_question("Unknown", ["France"])["abstained"] == 1


@pytest.mark.parametrize(("says", "abstained"), [(None, 0), (False, 0), (True, 1)])
def test_the_generator_itself_may_say_that_it_refuses(says: bool | None, abstained: int) -> None:
    values = one_question("France", ["France"], abstained=says)
    assert (values["abstained"], values["answer_em"]) == (abstained, 1 - abstained)


def test_an_empty_answer_refuses_whatever_the_generator_says() -> None:
    assert one_question(" ", ["France"], abstained=False)["abstained"] == 1
    assert one_question("unknown", ["France"], abstained=False)["abstained"] == 0


def test_what_needs_a_gold_answer_is_not_defined_without_one() -> None:
    values = one_question("France")
    assert (values["answer_em"], values["answer_f1"], values["abstained"]) == (None, None, 0)
    assert one_question(None)["answer_em"] is None


def test_markers_of_cited_units_are_no_words() -> None:
    values = one_question("France [1][2, 3]", ["France"], cited=[1, 2, 3])
    assert values["answer_em"] == 1
    assert one_question("[4] France", ["4 France"], cited=[1])["answer_em"] == 1
    assert one_question("[1]", ["France"], cited=[1])["abstained"] == 1


def test_a_failure_counts_and_is_named() -> None:
    """Failed with an error, missing altogether, refused, right: two zeros of four."""
    golds = gold_table({name: ["x"] for name in "abcd"})
    answers = answer_table({"a": None, "c": "", "d": "x"}, error={"a": "timeout"})
    table = answer_metrics(answers, golds, None, ["answer_em", "answer_f1", "abstained"])
    assert table["query_id"].to_pylist() == ["a", "b", "c", "d"]
    assert table["failed"].to_pylist() == [True, True, False, False]
    assert table["answer_em"].to_pylist() == [0, 0, 0, 1]
    assert table["abstained"].to_pylist() == [0, 0, 1, 0]
    assert answer_means(table, ["answer_em"])["answer_em"] == (0.25, 4)


def test_an_answer_to_no_question_is_not_looked_at() -> None:
    table = answer_metrics(answer_table({"z": "x"}), gold_table({"a": ["x"]}), None, ["answer_em"])
    assert table["query_id"].to_pylist() == ["a"]


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(UsageError, match=r"'answer_en' \(did you mean 'answer_em'"):
        answer_metrics(answer_table({}), gold_table({}), None, ["answer_en"])


def test_weights() -> None:
    golds = gold_table({"a": ["x"], "b": ["x"]})
    table = answer_metrics(answer_table({"a": "x", "b": "y"}), golds, None, ["answer_em"])
    assert answer_means(table, ["answer_em"], {"a": 3.0})["answer_em"].mean == 0.75


def abstention_f1(refused: Sequence[bool], answerable: Sequence[bool]) -> float | None:
    names = [f"q{number:02d}" for number in range(len(refused))]
    answers = {n: "" if r else "x" for n, r in zip(names, refused, strict=True)}
    without = [n for n, can in zip(names, answerable, strict=True) if not can]
    golds = gold_table({name: ["x"] for name in names}, unanswerable=without)
    table = answer_metrics(answer_table(answers), golds, None, ["abstention_f1"])
    return answer_means(table, ["abstention_f1"])["abstention_f1"].mean


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_abstention_f1_is_the_f1_of_refusals(cases: list[tuple[bool, bool]]) -> None:
    """In precision and recall, not as the metric has it."""
    refused, answerable = [r for r, _ in cases], [a for _, a in cases]
    right = sum(r and not a for r, a in cases)
    if right == 0:
        expected = 0.0 if any(r or not a for r, a in cases) else None
    else:
        precision, recall = right / sum(refused), right / sum(not a for a in answerable)
        expected = 2 * precision * recall / (precision + recall)
    assert abstention_f1(refused, answerable) == pytest.approx(expected)


def test_a_failure_is_no_refusal() -> None:
    golds = gold_table({"a": [], "b": []}, unanswerable=("a", "b"))
    table = answer_metrics(answer_table({"a": "", "b": None}), golds, None, ["abstention_f1"])
    assert table["abstention_f1"].to_pylist() == [1, 0]
    assert answer_means(table, ["abstention_f1"])["abstention_f1"].mean == pytest.approx(2 / 3)


WORDS = st.lists(st.sampled_from(["ferry", "ten", "crowns", "dog", "a", "the"]), max_size=5)
TEXTS = WORDS.map(" ".join)


@given(st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_bounds_and_equality(golds: list[str], answer: str) -> None:
    values = one_question(answer, golds)
    em, f1 = values["answer_em"], values["answer_f1"]
    assert em is not None
    assert f1 is not None
    assert em in (0, 1)
    assert em <= f1 <= 1
    if normal_form(golds[0]):
        assert one_question(golds[0], golds)["answer_em"] == 1
    if em == 1:
        assert f1 == 1
    more = one_question(answer, [*golds, answer])["answer_f1"]
    assert more is not None
    assert more >= f1


@given(WORDS, WORDS)
def test_f1_is_symmetric(a: list[str], b: list[str]) -> None:
    assert token_f1(a, b) == pytest.approx(token_f1(b, a), abs=1e-15)
    assert token_f1(a, a) == 1


def test_cjk_counts_characters() -> None:
    values = one_question("北京大学", ["北京 师范大学"], language="cjk")
    assert values["answer_f1"] == pytest.approx(2 * 1 * (4 / 6) / (1 + 4 / 6))
    assert one_question("北京大学。", ["北京 大学"], language="cjk")["answer_em"] == 1
    assert one_question("北京大学", ["北京 大学"])["answer_f1"] == 0
    assert one_question("不知道。", answerable=False, language="cjk")["answer_em"] == 1


def test_grounded_is_the_share_of_content_words_of_the_context() -> None:
    context = [("The ferry costs 40 crowns.", "d", 0), ("Dogs travel free.", "d", 30)]
    assert one_question("40 crowns", context=context)["grounded"] == 1
    assert one_question("It is 40 crowns for dogs", context=context)["grounded"] == 1
    assert one_question("40 euros or crowns", context=context)["grounded"] == pytest.approx(2 / 3)
    assert one_question("euros euros crowns", context=context)["grounded"] == pytest.approx(1 / 3)
    assert one_question("40 crowns [1]", context=context, cited=[1])["grounded"] == 1
    assert one_question("it is", context=context)["grounded"] is None
    assert one_question("", context=context)["grounded"] is None
    assert one_question(None, context=context)["grounded"] == 0
    assert one_question("40 crowns", context=[])["grounded"] == 0
    assert one_question("40 crowns")["grounded"] is None


def test_units_count_in_the_order_of_their_positions() -> None:
    contexts = context_table({"q": [("x", "d", 0), ("evidence", "e", 0)]}).take([1, 0])
    golds = gold_table({"q": ["x"]}, {"q": [("e1", "e", None, None)]})
    table = answer_metrics(
        answer_table({"q": "x"}, cited={"q": [2]}), golds, contexts, ["evidence_cited"]
    )
    assert table["evidence_cited"].to_pylist() == [1]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_what_it_is(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert all((metric.description, metric.formula, metric.source, metric.__doc__))
    assert metric.is_mean == (metric().multiplicity(1.0) == 1)


@pytest.mark.parametrize("name", METRICS)
def test_the_mean_is_that_of_the_values(name: str) -> None:
    golds = gold_table({"a": ["x y"], "b": ["x"], "c": ["z"]}, {"a": [("e", "d", 0, 4)]})
    contexts = context_table({n: [("x y", "d", 0)] for n in "abc"})
    answers = answer_table({"a": "x", "b": "x", "c": None}, cited={"a": [1], "b": []})
    table = answer_metrics(answers, golds, contexts, [name])
    if METRICS[name].is_mean:
        values = table[name].to_pylist()
        assert answer_means(table, [name])[name].mean == mean(values)
