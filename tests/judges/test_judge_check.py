"""``judge check``: which judges pass, which fail what, and what is asked for it.

Every judge is of a real type; language models are servers on loopback that read the real prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.answers.stage import answers_key
from rag_assets.checks.asset_checks import results_of
from rag_assets.cli.main import main
from rag_assets.judges.beside_people import kindness
from rag_assets.judges.calibration import judged_answers
from rag_assets.judges.calibration_stage import ANSWER_LABELS_KEY
from rag_assets.judges.check import JUDGE_CHECKS_DIR, Rules, check_judge, check_needs, stored_check
from rag_assets.judges.verdicts_stage import answer_verdicts_key
from rag_assets.pipeline.pipeline import Outcome
from rag_assets.pipeline.stages import STAGES
from rag_assets.report.html import render
from rag_assets.report.judge_check import kept_checks
from rag_assets.report.result import EvaluationResult
from tests.answers.answering import GOLDS, with_answers
from tests.judges.judged_experiment import (
    answers_of,
    fair,
    is_right,
    judge,
    label,
    likes_fancy,
    with_judged,
)
from tests.llm.server import Server, serving
from tests.tiny_experiment import QUERIES, Tiny

BLOCK = re.compile(r"^<([0-9a-f]{32})> \[1\]\n(.*?)\n<\1> ", re.M | re.S)
QUESTION_OF = {row["text"]: row["query_id"] for row in QUERIES}
RULES = Rules(items=6)
PEOPLE = "agreement with people"
CHANGES = ("padding", "empty texts", "planted instructions", "same twice", "negation", "numbers")

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
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tiny, Server]]:
    """Answers of a file, a judge that is a server, and one that counts words."""
    with serving() as server:
        tiny = Tiny(tmp_path_factory.mktemp("checked"))
        tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
        model = {"base_url": server.base_url, "api_key_env": None, "retries": 0}
        judges = {"floor": {"type": "words"}}
        answers = {"read": {"generator": "predicted"}}
        yield with_answers(tiny.write(), llm=model, judges=judges, answers=answers), server


def checked(evaluated: tuple[Tiny, Server], says: Judge, name: str) -> dict[str, list[str]]:
    """Evaluate with a judge of that name and model; return kind -> what it fails."""
    tiny, server = evaluated

    def write(prompt: str) -> str:
        said = says(prompt)
        return said if isinstance(said, str) else f"Reasons.\n##final score: {said}"

    server.write = write
    tiny.config["llm"]["model"] = name
    tiny.config["judges"][name] = {"type": "llm", "depth": 3}
    tiny.write_config()
    tiny.run()
    check = check_judge(tiny.pipeline(), name, RULES)
    del tiny.config["judges"][name]
    assert check.passed == (not any(kind.failures for kind in check.kinds))
    return {kind.kind: kind.failures for kind in check.kinds}


def test_an_oracle_passes(evaluated: tuple[Tiny, Server]) -> None:
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
    evaluated: tuple[Tiny, Server],
    says: Judge,
    relevance: set[str],
    correctness: set[str],
    request: pytest.FixtureRequest,
) -> None:
    failed = checked(evaluated, says, f"m-{request.node.callspec.id}")
    assert set(failed["relevance"]) == relevance
    assert set(failed["correctness"]) == correctness


def test_words_do_not_see_numbers(evaluated: tuple[Tiny, Server]) -> None:
    tiny, server = evaluated
    tiny.write_config()
    tiny.run()
    before = len(server.received)
    check = check_judge(tiny.pipeline(), "floor", RULES)
    of_answers = check.kinds[1]
    assert not check.passed
    assert "numbers" in of_answers.failures
    assert len(server.received) == before
    numbers = next(row for row in of_answers.trials if row["name"] == "numbers")
    assert (numbers["tried"], numbers["noticed"]) == (3, 0)  # of as many answers with a number
    assert of_answers.tried == sum(r["tried"] for r in of_answers.trials if r["name"] in CHANGES)


def proven(tiny: Tiny, judge: str) -> tuple[bool, str]:
    """Return what the check in Dagster says of a judge of answers: passed, and in words."""
    key = answer_verdicts_key(judge)
    outcome = Outcome(key, tiny.pipeline().artifact(key), reused=True, seconds=0.0)
    results = results_of(tiny.pipeline(), STAGES[key.asset], [outcome])
    (result,) = [one for one in results if one.check.name == "judge_is_proven"]
    assert not result.blocks
    return result.passed, result.summary


def test_verdicts_are_checked_for_a_judge_that_was_tried(evaluated: tuple[Tiny, Server]) -> None:
    tiny, _ = evaluated
    tiny.write_config()
    tiny.run()
    file = tiny.pipeline().root / JUDGE_CHECKS_DIR / "floor.json"
    file.unlink(missing_ok=True)
    passed, said = proven(tiny, "floor")
    assert (passed, "not tried as it is now" in said) == (False, True)
    check_judge(tiny.pipeline(), "floor", RULES)
    passed, said = proven(tiny, "floor")
    assert (passed, said) == (False, "it fails: padding (and 2 more)")
    tiny.snapshot()
    page = render(EvaluationResult.current(tiny.pipeline().root))
    assert "judge floor: FAIL" in page
    file.write_text(
        file.read_text("utf-8").replace('"fingerprint": "', '"fingerprint": "0'), "utf-8"
    )
    assert "not tried as it is now" in proven(tiny, "floor")[1]
    checked(evaluated, oracle, "oracle")
    tiny.config["judges"]["oracle"] = {"type": "llm", "depth": 3}
    tiny.write_config()
    assert proven(tiny, "oracle")[0]
    del tiny.config["judges"]["oracle"]


def test_requests_are_planned_asked_once_and_kept(
    evaluated: tuple[Tiny, Server],
) -> None:
    tiny, server = evaluated
    checked(evaluated, oracle, "kept")
    tiny.config["judges"]["kept"] = {"type": "llm", "depth": 3}
    tiny.write_config()
    few = Rules(items=2, seed=1)
    needs = check_needs(tiny.pipeline(), "kept", few)
    before = len(server.received)
    assert needs is not None
    check_judge(tiny.pipeline(), "kept", few)
    assert len(server.received) - before == needs.calls > 0
    check_judge(tiny.pipeline(), "kept", few)
    assert len(server.received) - before == needs.calls
    command = ["judge", "check", str(tiny.folder), "--store", str(tiny.settings.store)]
    options = ["--judge", "kept", "--items", "2", "--seed", "1"]
    for extra, said in (["--dry-run"], "kept: 0 requests"), ([], "judge kept: pass"):
        shown = CliRunner().invoke(main, [*command, *options, *extra])
        assert (shown.exit_code, said in shown.output) == (0, True), shown.output
    printed = CliRunner().invoke(main, [*command, *options, "--format", "json"])
    assert json.loads(printed.stdout)[0]["passed"] is True
    tiny.snapshot()
    page = render(EvaluationResult.current(tiny.pipeline().root))
    assert "Can the judge be believed?" in page
    assert "Trials of kept: correctness" in page
    result = EvaluationResult.current(tiny.pipeline().root)
    assert [check["judge"] for check in kept_checks(result) if check["judge"] == "kept"] == ["kept"]
    tiny.config["llm"]["model"] = "another"  # what is kept is of another judge then
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    result = EvaluationResult.current(tiny.pipeline().root)
    assert "kept" not in [check["judge"] for check in kept_checks(result)]
    assert stored_check(tiny.pipeline().root, "kept") is not None
    (tiny.pipeline().root / JUDGE_CHECKS_DIR / "kept.json").write_text("{", encoding="utf-8")
    assert stored_check(tiny.pipeline().root, "kept") is None
    del tiny.config["judges"]["kept"]


@pytest.mark.parametrize(("says", "passed"), [(fair, True), (lambda *_: True, False)])
def test_recorded_verdicts_beside_people(tmp_path: Any, says: Any, passed: bool) -> None:
    answers = answers_of({"plain": 0.6, "fancy": 0.5})
    tiny = with_judged(Tiny(tmp_path).write(), answers)
    judge(tiny, answers, says)
    label(tiny, answers, 60)
    tiny.run()
    check = check_judge(tiny.pipeline(), "strict", RULES)
    (kind,) = check.kinds
    assert check.passed is passed
    assert kind.agreement is not None
    assert kind.order is not None
    assert {row["passed"] for row in kind.trials} == {None}
    ids = {row["query_id"] for row in map(json.loads, (tiny.folder / "answer_labels.jsonl").open())}
    asked = [(own[one], int(one[1:])) for own in answers.values() for one in ids]
    table = [[0, 0], [0, 0]]
    for answer, number in asked:
        table[is_right(answer)][says(answer, number)] += 1
    assert kind.agreement["table"] == table
    assert kind.preference == {"reason": "no answerer is of the judge's family"}


def test_a_judge_that_likes_its_family_is_told(tmp_path: Any) -> None:
    """The same raw numbers: kinder to fancy, whose generator is made a relative here."""
    found = {}
    for says in (fair, likes_fancy):
        answers = answers_of({"plain": 0.5, "fancy": 0.5})
        tiny = with_judged(Tiny(tmp_path / says.__name__).write(), answers)
        judge(tiny, answers, says)
        drawn = label(tiny, answers, 100)
        tiny.run()
        pipeline = tiny.pipeline()
        verdicts = pipeline.artifact(answer_verdicts_key("strict")).table()
        labels = pipeline.artifact(ANSWER_LABELS_KEY).table()
        tables = {
            name: judged_answers(pipeline.artifact(answers_key(name)).table(), verdicts, labels)
            for name in pipeline.experiment.answer_cells
        }
        fancy = [name for name in tables if name.startswith("fancy")]
        clusters = {one: one for one in drawn}
        found[says] = kindness(tables, fancy, clusters, 0.95)
        assert "reason" in kindness(tables, [], clusters, 0.95)
        assert "reason" in kindness(tables, list(tables), clusters, 0.95)
    of_fair, of_other = found[fair], found[likes_fancy]
    assert of_fair["low"] <= 0 <= of_fair["high"]
    assert of_other["low"] > 0


def test_what_cannot_be_told_is_no_failure(
    evaluated: tuple[Tiny, Server],
) -> None:
    tiny, _ = evaluated
    tiny.config["judges"]["late"] = {"type": "llm"}
    tiny.config["llm"]["model"] = "late"
    tiny.write_config()
    command = ["judge", "check", str(tiny.folder), "--store", str(tiny.settings.store), "--judge"]
    for name, code in (("late", 3), ("nobody", 2)):
        shown = CliRunner().invoke(main, [*command, name])
        assert (shown.exit_code, name in shown.output) == (code, True), shown.output
    del tiny.config["judges"]["late"]
