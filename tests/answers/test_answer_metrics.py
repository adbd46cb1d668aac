"""Metrics of answers: texts as they are compared, gold answers, refusals, cited evidence."""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answers.answer_text import (
    LANGUAGES,
    OPENINGS,
    VERSION,
    WHOLE,
    Language,
    cited_units,
    is_refusal,
    normal_form,
    without_markers,
    words,
)
from rag_assets.answers.answerers import AnswerCell
from rag_assets.answers.cases import Evidence, Passage
from rag_assets.answers.metrics import METRICS, token_f1
from rag_assets.answers.stage import answer_metrics, golds_of
from rag_assets.answers.summary_stage import answer_summary
from rag_assets.evaluation.leaderboard import mean
from rag_assets.evaluation.query_facts import facts_table
from rag_assets.schemas import QRELS
from tests.answers.made_answers import Place, answer_table, context_table, gold_table, one_question


@pytest.mark.parametrize(
    ("answer", "says", "abstained"),
    [
        ("France", None, 0),
        ("France", False, 0),
        ("France", True, 1),
        ("unknown", False, 0),
        ("unknown", None, 1),
        (" ", False, 1),
    ],
)
def test_the_generator_itself_may_say_whether_it_refuses(
    answer: str, says: bool | None, abstained: int
) -> None:
    values = one_question(answer, ["France"], abstained=says)
    is_right = answer == "France" and not abstained
    assert (values["abstained"], values["answer_em"]) == (abstained, is_right)


def test_what_is_cited_is_no_word() -> None:
    assert one_question("France [1][2, 3]", ["France"], cited=[1, 2, 3])["answer_em"] == 1
    assert one_question("[4] France", ["4 France"], cited=[1])["answer_em"] == 1
    assert one_question("[1]", ["France"], cited=[1])["abstained"] == 1


def mean_of(table: pa.Table, metric: str, **weights: float) -> float | None:
    counting = facts_table(table["query_id"].to_pylist(), {}, weights, {}, {}).to_pylist()
    summary = answer_summary({AnswerCell("x", None): table}, counting, [metric], 0.95)
    rows = [row for row in summary.to_pylist() if row["questions"] == "all"]
    return rows[0]["mean"] if rows else None


def test_a_failure_counts_and_is_named() -> None:
    """Failed with an error, missing altogether, refused, right: two zeros of four."""
    golds = gold_table({name: ["x"] for name in "abcd"})
    given = {"a": None, "c": "", "d": "x", "z": "of no question"}
    answers = answer_table(given, error={"a": "timeout"})
    table = answer_metrics(answers, golds, None, ["answer_em", "answer_f1", "abstained"])
    assert table["query_id"].to_pylist() == ["a", "b", "c", "d"]
    assert table["failed"].to_pylist() == [True, True, False, False]
    assert table["answer_em"].to_pylist() == [0, 0, 0, 1]
    assert table["abstained"].to_pylist() == [0, 0, 1, 0]
    assert mean_of(table, "answer_em") == 0.25
    assert mean_of(table, "answer_em", d=3.0) == 0.5


def abstention_f1(refused: Sequence[bool], answerable: Sequence[bool]) -> float | None:
    names = [f"q{number:02d}" for number in range(len(refused))]
    answers = {n: "" if r else "x" for n, r in zip(names, refused, strict=True)}
    without = [n for n, can in zip(names, answerable, strict=True) if not can]
    golds = gold_table({name: ["x"] for name in names}, unanswerable=without)
    table = answer_metrics(answer_table(answers), golds, None, ["abstention_f1"])
    return mean_of(table, "abstention_f1")


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
    assert mean_of(table, "abstention_f1") == pytest.approx(2 / 3)


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


@pytest.mark.parametrize("name", METRICS)
def test_the_mean_is_that_of_the_values(name: str) -> None:
    golds = gold_table({"a": ["x y"], "b": ["x"], "c": ["z"]}, {"a": [("e", "d", 0, 4)]})
    contexts = context_table({n: [("x y", "d", 0)] for n in "abc"})
    answers = answer_table({"a": "x", "b": "x", "c": None}, cited={"a": [1], "b": []})
    table = answer_metrics(answers, golds, contexts, [name])
    if METRICS[name].is_mean:
        values = table[name].to_pylist()
        assert mean_of(table, name) == mean(values)


def facts(**answers: list[str]) -> pa.Table:
    return facts_table(list(answers), answers, {}, {}, {})


def labels(*rows: tuple[str, str, str, int | None, int | None, int]) -> pa.Table:
    return QRELS.from_rows([dict(zip(QRELS.arrow().names, row, strict=True)) for row in rows])


QRELS_OF_A = labels(
    ("a", "e1", "d#5-9", 2, 4, 1), ("a", "e2", "gone", None, None, 2), ("a", "e3", "d", 0, 4, 0)
)


@pytest.mark.parametrize(
    ("judge", "places"),
    [
        ("evidence", [("e1", "d#5-9", 2, 4), ("e2", "gone", None, None)]),
        ("document", [("e1", "d#5-9", None, None), ("e2", "gone", None, None)]),
    ],
)
def test_evidence_is_as_large_as_what_is_judged(
    judge: str, places: list[tuple[str, str, int | None, int | None]]
) -> None:
    (question,) = golds_of(facts(a=[]), QRELS_OF_A, judge)
    assert question.evidence == tuple(Evidence(*place) for place in places)


def test_what_is_answerable() -> None:
    """By a label, by an answer; not by a grade of 0; nothing is said of the last."""
    qrels = labels(("a", "e", "d", None, None, 1), ("c", "e", "d", None, None, 0))
    golds = golds_of(facts(a=[], b=["x"], c=[], d=[]), qrels, "evidence")
    assert [gold.answerable for gold in golds] == [True, True, False, None]
    assert [gold.query_id for gold in golds] == ["a", "b", "c", "d"]
    without = golds_of(facts(a=[], b=["x"]), QRELS.empty(), "evidence")
    assert [gold.answerable for gold in without] == [None, True]


def in_steps(text: str) -> str:
    """The published description, one step a line."""
    lower = text.lower()
    plain = "".join(character for character in lower if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


@given(st.text(alphabet=st.sampled_from("aAnN thTHe-.,'\u00e9\u4eac 1\t\n\u201c")))
def test_it_is_the_published_description(text: str) -> None:
    assert normal_form(text) == in_steps(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("北京大学", ["北", "京", "大", "学"]),
        ("北京 大学。", ["北", "京", "大", "学"]),
        ("１９９８年", ["1998", "年"]),
        ("「東京」、カナ", ["東", "京", "カ", "ナ"]),
        ("iPhone 4S 手机", ["iphone", "4s", "手", "机"]),
        ("the 大", ["the", "大"]),
        ("$40 元", ["40", "元"]),
        ("。", []),
    ],
)
def test_cjk_has_a_word_a_character(text: str, expected: list[str]) -> None:
    assert words(text, "cjk") == expected


@pytest.mark.parametrize("language", LANGUAGES)
@given(text=st.text())
def test_a_normal_form_has_its_words_with_one_blank_between(text: str, language: Language) -> None:
    assert normal_form(text, language).split() == words(text, language)


def test_every_phrase_refuses() -> None:
    for phrase in (*WHOLE, *OPENINGS):
        assert is_refusal(phrase), phrase
        assert is_refusal(f"  {phrase.upper()}. "), phrase
        assert is_refusal(phrase.replace("'", "\u2019")), phrase
    for phrase in OPENINGS:
        assert is_refusal(f"{phrase.capitalize()} what a ticket costs."), phrase
        assert not is_refusal(f"{phrase}, but a ticket costs 40 crowns"), phrase
        assert not is_refusal(f"They say that {phrase}"), phrase


@pytest.mark.parametrize(
    ("refuses", "texts"),
    [
        (True, ["", " ", ".", '"Unanswerable"', "(none)", "No\nanswer"]),
        (False, ["40 crowns", "nonetheless", "none of the dogs", "Unknown Pleasures"]),
        (False, ["the contexts does not", "no", "No, it does not", "Noether"]),
    ],
)
def test_what_is_nothing_and_what_is_an_answer(refuses: bool, texts: list[str]) -> None:
    assert [is_refusal(text) for text in texts] == [refuses] * len(texts)


def test_the_lists_of_phrases() -> None:
    digest = hashlib.sha256(repr((WHOLE, OPENINGS)).encode()).hexdigest()[:8]
    assert (VERSION, digest) == (1, "66cf84eb")
    for phrases in (WHOLE, OPENINGS):
        assert list(phrases) == sorted(set(phrases), key=lambda one: (not one.isascii(), one))
        assert [one for one in phrases if one != " ".join(one.lower().split())] == []


TEXT = "x" * 10
UNITS = [(TEXT, "d", start) for start in range(0, 50, 10)]
"""Five units of ten characters, one after the other."""

SECOND: Place = ("second", "d", 10, 20)
FOURTH: Place = ("fourth", "d", 32, 36)


def cited(evidence: list[Place], **columns: Any) -> tuple[float | None, ...]:
    values = one_question("x", ["x"], evidence=evidence, context=UNITS, **columns)
    names = ("evidence_cited_precision", "evidence_cited_recall", "evidence_cited")
    return tuple(values[name] for name in names)


@pytest.mark.parametrize(
    ("evidence", "units", "precision", "recall"),
    [
        ([SECOND], [2], 1, 1),
        ([SECOND], [1], 0, 0),
        ([SECOND], [1, 2], 1 / 2, 1),
        ([SECOND, FOURTH], [4, 5], 1 / 2, 1 / 2),
        ([SECOND], [], 0, 0),
        ([SECOND], [9], 0, 0),
        ([SECOND], [2, 9, 0], 1 / 3, 1),
        ([("whole", "d", None, None)], [1, 5], 1, 1),
        ([("other", "e", 0, 10)], [1], 0, 0),
        ([("either", "e", 0, 10), ("either", "d", 0, 10)], [1], 1, 1),
    ],
)
def test_units(evidence: list[Place], units: list[int], precision: float, recall: float) -> None:
    both = 2 * precision * recall / (precision + recall) if recall else 0
    assert cited(evidence, cited=units) == pytest.approx((precision, recall, both))


@pytest.mark.parametrize(
    ("span", "hit"),
    [
        ((2, 0, 10), 1),
        ((2, 3, 4), 1),  # lies inside the evidence
        ((4, 2, 6), 0),
        ((3, 0, 10), 0),
        ((2, 5, 99), 0),  # ends behind its unit
        ((2, 5, 5), 0),  # empty
        ((2, -1, 9), 0),
        ((7, 0, 1), 0),
    ],
)
def test_spans(span: tuple[int, int, int], hit: int) -> None:
    row = dict(zip(("unit", "start", "end"), span, strict=True))
    assert cited([SECOND], spans=[row]) == (hit, hit, hit)


def test_a_span_counts_where_it_stands_in_its_document() -> None:
    assert cited([FOURTH], spans=[{"unit": 4, "start": 2, "end": 6}]) == (1, 1, 1)
    assert cited([FOURTH], spans=[{"unit": 4, "start": 7, "end": 9}]) == (0, 0, 0)
    # The unit holds the evidence; what was copied from it does not.
    assert cited([FOURTH], cited=[4], spans=[{"unit": 4, "start": 7, "end": 9}]) == (0, 0, 0)


def test_what_does_not_cite_has_no_value() -> None:
    assert cited([SECOND]) == (None, None, None)
    assert cited([], cited=[2]) == (None, None, None)
    values = one_question("x", ["x"], evidence=[SECOND], cited=[2])
    assert values["evidence_cited"] is None  # no context is known


def test_where_one_answer_cites_all_are_measured() -> None:
    """Cites rightly, does not cite, refuses, failed; the last question has no evidence."""
    golds = gold_table({name: ["x"] for name in "abcde"}, {name: [SECOND] for name in "abcd"})
    answers = answer_table({"a": "x", "b": "x", "c": "", "e": "x"}, cited={"a": [2], "c": [2]})
    contexts = context_table({name: UNITS for name in "abcde"})
    table = answer_metrics(answers, golds, contexts, ["evidence_cited"])
    assert table["evidence_cited"].to_pylist() == [1, 0, 0, 0, None]


NUMBERS = st.lists(st.integers(0, 7), max_size=6)


@given(st.sets(st.integers(0, 4), min_size=1), NUMBERS, st.integers(0, 7))
def test_an_invented_or_repeated_citation_never_helps(
    places: set[int], units: list[int], more: int
) -> None:
    evidence: list[Place] = [(f"e{n}", "d", 10 * n, 10 * n + 10) for n in places]
    before, after = cited(evidence, cited=units), cited(evidence, cited=[*units, more])
    for old, new in zip(before, after, strict=True):
        assert old is not None
        assert new is not None
        assert 0 <= new <= 1
        if more in units:
            assert new == old
        elif more - 1 not in places:
            assert new <= old


@pytest.mark.parametrize(
    ("passage", "is_in"),
    [
        ((0, 10), True),
        ((5, 15), True),  # half of the evidence
        ((6, 16), False),
        ((9, 11), True),  # half of the passage
        ((10, 20), False),
        ((9, 12), False),
        ((3, 3), False),
    ],
)
def test_the_rule_of_judgments(passage: tuple[int, int], is_in: bool) -> None:
    assert Evidence("e", "d", 0, 10).is_in(Passage("d", *passage)) == is_in
    assert not Evidence("e", "other", 0, 10).is_in(Passage("d", *passage))


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("It costs 40 crowns [2].", [2]),
        ("40 crowns[1] and 10 for dogs [3][1]", [1, 3]),
        ("[1, 2]", [1, 2]),
        ("[ 1,2 ]", [1, 2]),
        ("[12]", [12]),
        ("[0] [99]", [0, 99]),
        ("in [2019] and [1-3], [page 4], (2), [a1], [1.5], []", []),
        ("see [1](https://example.org)", []),
        ("2 dogs", []),
    ],
)
def test_markers(text: str, cited: list[int]) -> None:
    assert cited_units(text) == cited


def test_only_markers_of_what_is_cited_are_taken_out() -> None:
    text = "40 [1] crowns [2, 1] in [3] or [2019]"
    assert " ".join(without_markers(text, [1, 2]).split()) == "40 crowns in [3] or [2019]"
    assert without_markers("40 [1]", []) == "40 [1]"
