"""Drift of the lengths of answers, and of refusals, against a pinned evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.answers.stage import answers_key
from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import CheckResult
from rag_assets.checks.validation import validate
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.stages import STAGES
from tests.answers.answering import with_answers, write_predictions
from tests.tiny_experiment import Tiny

N = 40


def predictions(words: int, refused: int) -> dict[str, str]:
    texts = ["" if n < refused else " ".join(["word"] * (words + n % 3)) for n in range(N)]
    return {f"q{n}": text for n, text in enumerate(texts)}


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Forty questions; four of their answers refuse, the others have 5 to 7 words."""
    tiny = with_answers(Tiny(tmp_path_factory.mktemp("drift") / "tiny").write())
    rows = [{"query_id": f"q{n}", "text": f"question {n}"} for n in range(N)]
    tiny.write_rows("queries.jsonl", rows)
    tiny.write_rows("judgments.jsonl", [{"query_id": "q0", "doc_id": "fares.md"}])
    tiny.config["answers"] = {"official": {"generator": "predicted"}}
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.write_config()
    write_predictions(tiny, predictions(5, 4))
    tiny.run()
    tiny.snapshot()
    EvaluationNames(tiny.settings, tiny.artifacts.name).pin("latest")
    return tiny


def drift(tiny: Tiny) -> CheckResult:
    tiny.run()
    tiny.snapshot()
    pipeline = tiny.pipeline()
    outcomes = pipeline.materialize("answers", [answers_key("official@-")])
    results = results_of(pipeline, STAGES["answers"], outcomes)
    return next(result for result in results if result.check.name == "drift")


@pytest.mark.parametrize(
    ("words", "refused", "sentences"),
    [
        (5, 4, []),
        (5, 6, []),  # two of forty more refuse: chance
        (15, 4, ["answers have 16 words in the median (in the anchor 6)"]),
        (5, 18, ["45% of the answers refuse (in the anchor 10%)"]),
        (5, N, ["100% of the answers refuse (in the anchor 10%)"]),
        (
            1,
            18,
            [
                "45% of the answers refuse (in the anchor 10%)",
                "answers have 2 words in the median (in the anchor 6)",
            ],
        ),
    ],
)
def test_answers_drift(
    anchored: Tiny, tmp_path: Path, words: int, refused: int, sentences: list[str]
) -> None:
    tiny = anchored.copy_to(tmp_path / "tiny")
    write_predictions(tiny, predictions(words, refused))
    result = drift(tiny)
    assert result.passed == (not sentences)
    assert [one.partition(":")[0] for one in result.outcome.problems] == sentences
    assert result.outcome.numbers["refused"] == refused / N
    assert result.outcome.numbers["refused_in_anchor"] == 0.1
    rows = validate(tiny.pipeline()).findings.to_pylist()
    told = [row["message"] for row in rows if row["check"] == "drift"]
    assert [one for one in told if "official@-" in one] == [
        f"official@-: {one}" for one in result.outcome.problems
    ]


def test_too_few_answers_are_not_compared(anchored: Tiny, tmp_path: Path) -> None:
    tiny = anchored.copy_to(tmp_path / "tiny")
    write_predictions(tiny, {f"q{n}": "word" for n in range(19)})
    assert drift(tiny).summary == "Not checked: 19 answers are too few, 20 are needed."
