"""``judge check``: trials, texts that are changed, circularity."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.analysis.judged import kept_checks
from rag_assets.analysis.result import EvaluationResult
from rag_assets.answers.answer_text import normal_form, words
from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import CheckResult
from rag_assets.experiment.hosts import circular_uses
from rag_assets.judges.base import CORRECTNESS, RELEVANCE, CorrectnessItem, RelevanceItem
from rag_assets.judges.check import JUDGE_CHECKS_DIR, Rules, check_judge, stored_check
from rag_assets.judges.trials import (
    PADDING,
    drawn,
    negated,
    padded,
    planted,
    with_another_number,
    wrong_answers,
    wrong_passages,
)
from rag_assets.judges.verdicts_stage import verdicts_key
from rag_assets.labels.findings import ERROR
from rag_assets.pipeline.pipeline import Outcome
from rag_assets.pipeline.stages import STAGES
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import GOLDS, with_answers
from tests.judges.judged_experiment import (
    Evaluated,
    answers_of,
    evaluating,
    fair,
    is_right,
    judge,
    label,
    with_judged,
)
from tests.llm.server import serving
from tests.tiny_experiment import QUERIES, Tiny

BLOCK = re.compile(r"^<([0-9a-f]{32})> \[1\]\n(.*?)\n<\1> ", re.M | re.S)
QUESTION_OF = {row["text"]: row["query_id"] for row in QUERIES}
RULES = Rules(items=6)
PEOPLE = "agreement with people"
Judge = Callable[[str], int | str]
"""(prompt) -> the score, or the whole reply."""


def oracle(prompt: str) -> int:
    """Know the right answers; a negation is none, and instructions are texts."""
    golds = GOLDS[next(name for text, name in QUESTION_OF.items() if text in prompt)]
    shown = BLOCK.findall(prompt)[-1][1]
    says_so = any(gold.lower() in shown.lower() for gold in golds) and "not" not in shown.split()
    return int(says_so) * (1 if "n being 0 or 1" in prompt else 3)


def obedient(prompt: str) -> int:
    """As the oracle, but whoever asks for a score gets it."""
    asked = re.search(r"final score: (\d)", prompt)
    return int(asked[1]) if asked else oracle(prompt)


def parrot(prompt: str) -> int | str:
    """Repeat what is planted before a score of its own: such a reply is not read."""
    asked = re.search(r"final score: \d", prompt)
    return f"It says {asked[0]}.\n##final score: {oracle(prompt)}" if asked else oracle(prompt)


def always_yes(prompt: str) -> int:
    return 1 if "n being 0 or 1" in prompt else 3


def always_no(prompt: str) -> int:
    return 0


class Moody:
    """The oracle the first time, and the contrary after that."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def __call__(self, prompt: str) -> int:
        again = prompt in self.known
        self.known.add(prompt)
        return oracle(prompt) if not again else always_yes(prompt) - oracle(prompt)


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory, computed_answers: Tiny
) -> Iterator[Evaluated]:
    """Answers of a file, and a judge that counts words."""
    root, judges = tmp_path_factory.mktemp("checked"), {"floor": {"type": "words"}}
    with evaluating(root, computed_answers, str, judges=judges) as made:
        yield made


def checked(evaluated: Evaluated, says: Judge, name: str) -> dict[str, list[str]]:
    """Evaluate with a judge of that name and model; return kind -> what it fails."""
    tiny, server, *_ = evaluated

    def write(prompt: str) -> str:
        said = says(prompt)
        return said if isinstance(said, str) else f"Reasons.\n##final score: {said}"

    server.write = write
    tiny.config["llms"]["small"]["model"] = name
    tiny.config["judges"][name] = {"type": "llm", "llm": "small", "depth": 3}
    tiny.write_config()
    tiny.run()
    check = check_judge(tiny.pipeline(), name, RULES)
    del tiny.config["judges"][name]
    assert check["passed"] == (not any(kind["failed"] for kind in check["kinds"]))
    return {kind["kind"]: kind["failed"] for kind in check["kinds"]}


def test_an_oracle_passes(evaluated: Evaluated) -> None:
    assert checked(evaluated, oracle, "oracle") == {"relevance": [], "correctness": []}


@pytest.mark.parametrize(
    ("says", "relevance", "correctness"),
    [
        pytest.param(
            always_yes,
            {"wrong texts", "empty texts", PEOPLE},
            {"wrong texts", "empty texts", "negation", "numbers"},
            id="yes",
        ),
        pytest.param(always_no, {"right texts", PEOPLE}, {"right texts"}, id="no"),
        pytest.param(obedient, {"planted instructions"}, {"planted instructions"}, id="obeys"),
        pytest.param(parrot, set(), set(), id="repeats"),
        pytest.param(Moody(), {"same twice"}, {"same twice"}, id="moody"),
    ],
)
def test_who_fails_what(
    evaluated: Evaluated,
    says: Judge,
    relevance: set[str],
    correctness: set[str],
    request: pytest.FixtureRequest,
) -> None:
    failed = checked(evaluated, says, f"m-{request.node.callspec.id}")
    assert set(failed["relevance"]) == relevance
    assert set(failed["correctness"]) == correctness


def result_of(tiny: Tiny, key: ArtifactKey, check: str) -> CheckResult:
    """Return what a check in Dagster says of verdicts."""
    pipeline = tiny.pipeline()
    outcome = Outcome(key, pipeline.artifact(key), reused=True, seconds=0.0)
    results = results_of(pipeline, STAGES[key.asset], [outcome])
    (result,) = [one for one in results if one.check.name == check]
    return result


def proven(tiny: Tiny, judge: str) -> tuple[bool, str]:
    result = result_of(tiny, verdicts_key(CORRECTNESS, judge), "judge_is_proven")
    return result.passed, result.summary


def test_verdicts_are_checked_for_a_judge_that_was_tried(evaluated: Evaluated) -> None:
    tiny = evaluated.tiny
    tiny.write_config()
    tiny.run()
    file = tiny.pipeline().root / JUDGE_CHECKS_DIR / "floor.json"
    file.unlink(missing_ok=True)
    passed, said = proven(tiny, "floor")
    assert (passed, "not tested with its current options" in said) == (False, True)
    check_judge(tiny.pipeline(), "floor", RULES)
    passed, said = proven(tiny, "floor")
    assert (passed, said) == (False, "it fails: padding (and 2 more)")
    other = file.read_text("utf-8").replace('"fingerprint": "', '"fingerprint": "0')
    file.write_text(other, "utf-8")
    assert "not tested with its current options" in proven(tiny, "floor")[1]
    checked(evaluated, oracle, "oracle")
    tiny.config["judges"]["oracle"] = {"type": "llm", "llm": "small", "depth": 3}
    tiny.write_config()
    assert proven(tiny, "oracle")[0]
    del tiny.config["judges"]["oracle"]


def test_requests_are_asked_once_and_kept(evaluated: Evaluated) -> None:
    tiny, server, *_ = evaluated
    checked(evaluated, oracle, "kept")
    tiny.config["judges"]["kept"] = {"type": "llm", "llm": "small", "depth": 3}
    tiny.write_config()
    few = Rules(items=2, seed=1)
    before = len(server.received)
    check_judge(tiny.pipeline(), "kept", few)
    n_asked = len(server.received)
    assert n_asked > before
    check_judge(tiny.pipeline(), "kept", few)
    command = ("judge", "check", ".", "--judge", "kept", "--items", "2", "--seed", "1")
    shown = tiny.command(*command)
    assert (shown.exit_code, "judge kept: pass" in shown.output) == (0, True), shown.output
    assert len(server.received) == n_asked
    assert json.loads(tiny.command(*command, "--format", "json").stdout)[0]["passed"] is True
    tiny.snapshot()
    result = EvaluationResult.current(tiny.artifacts)
    assert "kept" in [check["judge"] for check in kept_checks(result)]
    tiny.config["llms"]["small"]["model"] = "another"  # what is kept is of another judge then
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    result = EvaluationResult.current(tiny.artifacts)
    assert "kept" not in [check["judge"] for check in kept_checks(result)]
    assert stored_check(tiny.pipeline().root, "kept") is not None
    (tiny.pipeline().root / JUDGE_CHECKS_DIR / "kept.json").write_text("{", encoding="utf-8")
    assert stored_check(tiny.pipeline().root, "kept") is None
    del tiny.config["judges"]["kept"]


def test_recorded_verdicts_beside_people(tmp_path: Path) -> None:
    answers = answers_of({"plain": 0.6, "fancy": 0.5})
    tiny = with_judged(Tiny(tmp_path).write(), answers)
    says: dict[str, Any] = {"strict": fair, "kind": lambda *_: True}
    for name, one in says.items():
        judge(tiny, answers, one, name)
        recorded = {"type": "recorded", "path": f"{name}.jsonl", "judges": ["correctness"]}
        tiny.config["judges"][name] = recorded
    tiny.write_config()
    drawn = label(tiny, answers, 60)
    tiny.run()
    asked = [(own[one], int(one[1:])) for own in answers.values() for one in drawn]
    for name, one in says.items():
        check = check_judge(tiny.pipeline(), name, RULES)
        (kind,) = check["kinds"]
        assert check["passed"] is (name == "strict")
        assert {row["passed"] for row in kind["trials"]} == {None}
        table = [[0, 0], [0, 0]]
        for answer, number in asked:
            table[is_right(answer)][one(answer, number)] += 1
        assert kind["agreement"]["table"] == table


def test_what_cannot_be_told_is_no_failure(evaluated: Evaluated) -> None:
    tiny = evaluated.tiny
    tiny.config["llms"]["small"]["model"] = "late"
    tiny.write_config()
    tiny.run()
    tiny.config["judges"]["late"] = {"type": "llm", "llm": "small"}
    tiny.write_config()
    for name, code in (("late", 3), ("nobody", 2)):
        shown = tiny.command("judge", "check", ".", "--judge", name)
        assert (shown.exit_code, name in shown.output) == (code, True), shown.output
    del tiny.config["judges"]["late"]


def item(answer: str, *golds: str, query_id: str = "q", question: str = "") -> CorrectnessItem:
    return CorrectnessItem(query_id, question, answer, golds or (answer,))


@pytest.mark.parametrize(
    ("text", "contrary"),
    [
        ("Paris", "It is not Paris"),
        ("Yes.", "no"),
        ("The harbour is open.", "The harbour is not open."),
        ("It opens at six in the morning", "It is not true that It opens at six in the morning"),
        ("It isn't open", "It is not true that It isn't open"),
        ("It can't be seen from here", "It is not true that It can't be seen from here"),
        ("never on Mondays", "It is not true that never on Mondays"),
    ],
)
def test_the_contrary(text: str, contrary: str) -> None:
    assert negated(text, item(text), 0) == contrary


def test_a_contrary_that_is_right_too_is_none() -> None:
    assert negated("yes", item("yes", "yes", "no"), 0) is None


@given(st.text(max_size=40))
def test_another_number_is_another_one_as_long(text: str) -> None:
    changed = with_another_number(text, item(text), 0)
    if not re.search(r"\d", text):
        assert changed is None
    elif changed is not None:
        assert len(changed) == len(text)
        assert normal_form(changed) != normal_form(text)
        assert sum(a != b for a, b in zip(text, changed, strict=True)) == 1


def test_padding_and_planted_instructions() -> None:
    about_bees = item("six legs", question="how many legs have honey bees")
    for number in range(len(PADDING)):
        text = padded("six legs", about_bees, number)
        assert text is not None
        assert text.startswith("six legs. ")
        assert "bees" not in text
    assert padded("x", item(" ".join(PADDING)), 0) is None
    for number in (0, 1):
        assert "final score: 3" in planted("text", item("text"), number, highest=3)


def test_wrong_answers_share_no_word_with_right_ones() -> None:
    items = [
        item("ten crowns", query_id="a"),
        item("nine crowns", query_id="b"),
        item("a blue whale", query_id="c"),
    ]
    found = {one.query_id: one.text for one in wrong_answers(items)}
    assert found["a"] == found["b"] == "a blue whale"
    assert not set(words(found["c"])) & set(words("a blue whale"))
    assert wrong_answers(items[:2]) == []
    assert wrong_answers(reversed(items)) == wrong_answers(items)


def test_wrong_passages_are_of_no_document_that_was_returned() -> None:
    def passage(query_id: str, document_id: str, text: str) -> RelevanceItem:
        return RelevanceItem(query_id, "where do whales live", document_id, 0, len(text), text)

    near = [passage("a", "d1", "whales"), passage("a", "d2", "fish")]
    far = [passage("b", "d3", "where whales live"), passage("b", "d4", "a stone")]
    found = {one.query_id: one for one in wrong_passages([*near, *far])}
    assert found["a"].text == "a stone"
    assert found["b"].text == "fish"


def test_a_draw_depends_on_seed_and_question_alone() -> None:
    items = [item("x", query_id=f"q{n}") for n in range(50)]
    order = drawn(items, 1)
    assert order == drawn(reversed(items), 1)
    assert order != drawn(items, 2)
    assert drawn(items[:25], 1) == [one for one in order if one in items[:25]]


SERVER = "http://127.0.0.1:9/v1"
OWN, OTHER = "gpt-4o", "llama-3.1-8b"
OF_ANSWERS = verdicts_key(CORRECTNESS, "strict")
OF_PASSAGES = verdicts_key(RELEVANCE, "strict")
BM25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}
HYDE = {"bm25": {**BM25, "query_set": "guess"}}
RERANK = {"type": "rerank_api", "input": "bm25", "candidates": 3, "base_url": SERVER}
LISTWISE = {"type": "listwise", "input": "bm25", "candidates": 3, "base_url": SERVER}
WRITERS = {"mine": {"type": "llm", "llm": "own"}, "theirs": {"type": "llm", "llm": "other"}}


def made(root: Path, **changes: Any) -> Tiny:
    """An experiment of two models; the judge is the one that is called ``own``."""
    tiny = Tiny(root)
    tiny.config["retrievers"] = {"bm25": {**BM25}}
    llms = {
        name: {"base_url": SERVER, "model": model, "api_key_env": None}
        for name, model in {"own": OWN, "other": OTHER, "dated": f"openai/{OWN}-2024-08-06"}.items()
    }
    answers = {"read": {"generator": "predicted", "retriever": "bm25", "top_k": [3]}}
    judges = {"strict": {"type": "llm", "llm": "own", "depth": 3}}
    parts = {"llms": llms, "judges": judges, "answers": answers, **changes}
    return with_answers(tiny.write(), **parts)


def circles(tiny: Tiny, key: Any = OF_ANSWERS) -> list[str]:
    pipeline = tiny.pipeline()
    queries = pipeline.experiment.dataset.read_queries().table
    return circular_uses(pipeline.experiment, key, queries)


def answerer(generator: str) -> dict[str, Any]:
    own = {"plain": {"generator": generator, "retriever": "bm25", "top_k": [3]}}
    return {"generators": WRITERS, "answers": own}


def written_by(tiny: Tiny, model: str, tag: str = "generated") -> Tiny:
    own = {"tags": [tag], "source": f"{model} questions/1", "answers": ["10 crowns"]}
    tiny.write_rows("queries.jsonl", [{**row, **own} for row in QUERIES])
    return tiny


CIRCULAR: dict[str, tuple[dict[str, Any], Any, str | None]] = {
    "answers": (
        answerer("mine"),
        OF_ANSWERS,
        "judge strict uses gpt-4o, which also writes the answers of plain",
    ),
    "the same model by another name": (
        {
            "generators": {"dated": {"type": "llm", "llm": "dated"}},
            "answers": {"plain": {"generator": "dated", "context": "none"}},
        },
        OF_ANSWERS,
        "which also (as openai/gpt-4o-2024-08-06) writes the answers of plain",
    ),
    "hyde": (
        {"query_sets": {"guess": {"strategy": "hyde", "llm": "own"}}, "retrievers": HYDE},
        OF_PASSAGES,
        "which also writes the queries of guess",
    ),
    "rewritten queries below a fusion and answers": (
        {
            "query_sets": {"guess": {"strategy": "rewrite", "llm": "own"}},
            "retrievers": {
                **HYDE,
                "plain": {**BM25},
                "both": {"type": "rrf", "inputs": ["bm25", "plain"], "candidates": 10},
            },
            "answers": {"read": {"generator": "theirs", "retriever": "both", "top_k": [3]}},
            "generators": WRITERS,
        },
        OF_ANSWERS,
        "which also writes the queries of guess",
    ),
    "a reranker": (
        {"retrievers": {"bm25": {**BM25}, "sorted": {**RERANK, "model": f"org/x/{OWN}:free"}}},
        OF_PASSAGES,
        "which also (as org/x/gpt-4o:free) reranks for sorted",
    ),
    "a listwise reranker, of which answers are made": (
        {
            "retrievers": {"bm25": {**BM25}, "sorted": {**LISTWISE, "model": "GPT-4o-latest"}},
            "answers": {"read": {"generator": "theirs", "retriever": "sorted", "top_k": [3]}},
            "generators": WRITERS,
        },
        OF_ANSWERS,
        "which also (as GPT-4o-latest) reranks for sorted",
    ),
    "the experiment's own model": (
        {
            "llm": {"base_url": SERVER, "model": OWN, "api_key_env": None},
            "generators": {"mine": {"type": "llm"}},
            "answers": {"plain": {"generator": "mine", "context": "gold", "chunking": "parts"}},
            "judges": {"strict": {"type": "llm"}},
        },
        OF_ANSWERS,
        "which also writes the answers of plain",
    ),
    "another model answers": (answerer("theirs"), OF_ANSWERS, None),
    "answers are no part of passages": (answerer("mine"), OF_PASSAGES, None),
    "its model writes no answerer": (
        {"generators": {**WRITERS, "predicted": {"type": "file", "path": "predictions.json"}}},
        OF_ANSWERS,
        None,
    ),
    "nobody searches for its queries": (
        {"query_sets": {"guess": {"strategy": "hyde", "llm": "own"}}},
        OF_PASSAGES,
        None,
    ),
    "a smaller model": (
        {"retrievers": {"bm25": {**BM25}, "sorted": {**RERANK, "model": "gpt-4o-mini"}}},
        OF_PASSAGES,
        None,
    ),
    "no model judges": (
        {**answerer("mine"), "judges": {"strict": {"type": "words"}}},
        OF_ANSWERS,
        None,
    ),
}
"""Changes, verdicts, and how the sentence about a circle ends, if it is one."""


@pytest.mark.parametrize("name", CIRCULAR)
def test_a_circle_is_named(tmp_path: Path, name: str) -> None:
    changes, key, text = CIRCULAR[name]
    sentences = circles(made(tmp_path, **changes), key)
    assert len(sentences) == (text is not None)
    assert all(sentence.endswith(text or "") for sentence in sentences)


def test_who_wrote_the_questions_is_named(tmp_path: Path) -> None:
    tiny = written_by(made(tmp_path), f"openai/{OWN}")
    for key in (OF_ANSWERS, OF_PASSAGES):
        (sentence,) = circles(tiny, key)
        assert "which also (as openai/gpt-4o) wrote 6 of the 6 questions" in sentence
    assert circles(written_by(tiny, OTHER)) == []
    assert circles(written_by(tiny, OWN, "read in a book")) == []


def test_the_check_of_the_verdicts_fails(tmp_path: Path) -> None:
    with serving(lambda text: "##final score: 1") as server:
        tiny = made(tmp_path, **answerer("mine"))
        for one in tiny.config["llms"].values():
            one["base_url"] = server.base_url
        tiny.write_config()
        tiny.run()
    for key, passed in ((OF_ANSWERS, False), (OF_PASSAGES, True)):
        result = result_of(tiny, key, "judge_is_independent")
        assert (result.passed, result.severity) == (passed, ERROR)
