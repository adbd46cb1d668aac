"""Drift against a pinned evaluation: of queries, of the corpus, and where nothing is compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_assets.answers.stage import answers_key
from rag_assets.assets.reports import check_specs
from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import NO_ANCHOR, CheckResult
from rag_assets.checks.drift import ANSWER_DRIFT, DRIFT
from rag_assets.checks.validation import Validation
from rag_assets.chunking.stage import chunks_key
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.pipeline import Outcome, Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import ArtifactKey
from tests.answers.answering import with_answers, write_predictions
from tests.tiny_experiment import DOCUMENTS, Tiny

ASKED = [
    f"{sentence.strip('.').lower()} {word}"
    for text in DOCUMENTS.values()
    for sentence in text.split("\n")
    if sentence and not sentence.startswith("#")
    for word in ("when", "why")
]
STRANGE = ["quarterly earnings of the bakery", "the weather on mars", "the price of a ferry"]


def ask(tiny: Tiny, texts: list[str]) -> None:
    rows = [{"query_id": f"q{n}", "text": text} for n, text in enumerate(texts)]
    tiny.write_rows("queries.jsonl", rows)
    tiny.write_rows("judgments.jsonl", [{"query_id": "q0", "doc_id": "fares.md"}])
    vectors = np.random.default_rng(5).normal(size=(len(texts), 8)) + np.eye(8)[0] * 9
    strange = [any(part in text for part in STRANGE) for text in texts]
    vectors[strange] *= -1
    np.save(tiny.root / "queries.npy", vectors.astype(np.float32))
    (tiny.root / "queries.txt").write_text("\n".join(row["query_id"] for row in rows))


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Thirty queries; a lexical, an embedding and a fused retriever; the evaluation is pinned."""
    tiny = Tiny(tmp_path_factory.mktemp("drift") / "tiny").write()
    files = {
        f"{kind}_{part}": f"../{name}.{ending}"
        for kind, name in (("chunk", "chunks"), ("query", "queries"))
        for part, ending in (("vectors", "npy"), ("ids", "txt"))
    }
    tiny.config["retrievers"] = {
        "bm25": {"type": "bm25", "chunking": "parts", "analyzer": "english", "k1": 1.2},
        "vectors": {"type": "vectors", "chunking": "parts", **files},
        "both": {"type": "rrf", "inputs": ["bm25", "vectors"]},
    }
    tiny.config |= {"top_k": [1, 5], "metrics": ["hit_rate"], "primary": "hit_rate@5"}
    tiny.config |= {"measurements": {"latency_sample": 0}, "statistics": {"resamples": 100}}
    for name in ("chunks", "queries"):
        for ending in ("npy", "txt"):
            (tiny.root / f"{name}.{ending}").touch()
    ask(tiny, ASKED)
    tiny.write_config()
    pipeline = tiny.pipeline()
    bring(pipeline, chunks_key("parts"))
    ids = pipeline.artifact(chunks_key("parts")).table()["chunk_id"].to_pylist()
    vectors = np.random.default_rng(6).normal(size=(len(ids), 8)) + np.eye(8)[0] * 9
    np.save(tiny.root / "chunks.npy", vectors.astype(np.float32))
    (tiny.root / "chunks.txt").write_text("\n".join(ids))
    tiny.run()
    tiny.snapshot()
    EvaluationNames(tiny.settings, tiny.artifacts.name).pin("latest")
    return tiny


@pytest.fixture
def tiny(anchored: Tiny, tmp_path: Path) -> Tiny:
    return anchored.copy_to(tmp_path / "tiny")


def bring(pipeline: Pipeline, key: ArtifactKey) -> list[Outcome]:
    for item in STAGES[key.asset].inputs(pipeline.experiment, key):
        bring(pipeline, item.key)
    return pipeline.materialize(key.asset, [key])


def drift(tiny: Tiny, retriever: str, top_k: int = 5) -> CheckResult:
    pipeline = tiny.pipeline()
    key = run_key(pipeline.experiment, retriever, top_k)
    outcomes = bring(pipeline, key)
    found = results_of(pipeline, STAGES[key.asset], outcomes)
    return next(result for result in found if result.check.name == "drift")


def validated(tiny: Tiny) -> Validation:
    tiny.run()
    tiny.snapshot()
    return Validation(tiny.pipeline())


def kinds(found: Validation) -> set[tuple[str, str]]:
    rows = found.findings.to_pylist()
    return {(r["severity"], r["check"]) for r in rows if r["check"] in ("drift", "far_query")}


def strange(tiny: Tiny, share: float) -> None:
    """Ask so many questions that the corpus says nothing about in place of the first ones."""
    n = round(share * len(ASKED))
    ask(tiny, [f"{STRANGE[i % 2]} {i}" for i in range(n)] + ASKED[n:])


def test_nothing_changed(tiny: Tiny) -> None:
    for retriever in ("bm25", "vectors", "both"):
        for top_k in (1, 5):
            result = drift(tiny, retriever, top_k)
            assert result.passed
            assert result.outcome.numbers["psi"] == 0
            assert result.outcome.numbers["queries"] == len(ASKED)
    found = validated(tiny)
    assert kinds(found) == set()
    assert tuple(found.skipped) == ()


def test_a_check_that_passes_does_not_say_that_it_has_no_result(tiny: Tiny) -> None:
    """What it says of one that has none stands where the check is described."""
    assert drift(tiny, "bm25").summary == DRIFT.meaning
    for check, stage in ((DRIFT, "lexical_runs"), (ANSWER_DRIFT, "answers")):
        specs = check_specs(STAGES[stage], tiny.pipeline().experiment, None)
        described = {spec.name: spec.description for spec in specs}
        assert described["drift"] == f"{check.meaning} {check.no_result}"
        assert "anchor is pinned" not in check.meaning


def test_strange_queries_are_named(tiny: Tiny) -> None:
    strange(tiny, 0.5)
    found = validated(tiny)
    assert kinds(found) == {("warning", "drift"), ("warning", "far_query")}
    rows = found.findings.to_pylist()
    far = [r["query_id"] for r in rows if r["check"] == "far_query" and "bm25: " in r["message"]]
    assert set(far) == {f"q{n}" for n in range(len(ASKED) // 2)}
    quantities = {"bm25": "score of the best hit", "vectors": "similarity of the nearest chunk"}
    for retriever, quantity in quantities.items():
        result = drift(tiny, retriever)
        assert not result.passed
        assert result.outcome.severity == "warning"
        shifted, strayed = result.outcome.problems
        distribution = "has another distribution than in the anchor: PSI "
        assert shifted.startswith(f"the {quantity} {distribution}")
        assert " of the queries are far from the corpus (in the anchor " in strayed
        assert f"above 20%: the {quantity} is below " in strayed
        named = {query_id for query_id, _ in result.outcome.queries}
        assert named >= {f"q{n}" for n in range(len(ASKED) // 2)}
        assert result.outcome.numbers["far_share"] == len(named) / len(ASKED)


def test_a_corpus_that_shrank_drifts_too(tiny: Tiny) -> None:
    for name in list(DOCUMENTS)[2:]:
        (tiny.folder / name).unlink()
    assert not drift(tiny, "bm25").passed


def test_limits_and_severity_are_configured(tiny: Tiny) -> None:
    strange(tiny, 0.1)
    assert drift(tiny, "vectors").passed
    tiny.config["checks"] = {"drift": {"severity": "error", "far_share": 0.05}}
    tiny.write_config()
    result = drift(tiny, "vectors")
    assert (result.passed, result.outcome.severity) == (False, "error")
    found = validated(tiny)
    assert ("error", "drift") in kinds(found)
    assert ("warning", "far_query") in kinds(found)
    severities = found.findings["severity"].to_pylist()
    assert found.n_errors == severities.count("error") >= 1
    assert found.n_errors == severities.count("error") != severities.count("warning")
    tiny.config["checks"] = {"drift": {"far_below": {"vectors": -2}, "psi": 99}}
    tiny.write_config()
    result = drift(tiny, "vectors")
    assert result.passed
    assert result.outcome.numbers["far_below"] == -2
    assert result.outcome.queries == ()


def test_without_an_anchor_nothing_is_compared(tiny: Tiny) -> None:
    (tiny.artifacts / "anchor").unlink()
    pipeline = tiny.pipeline()
    stage, key = STAGES["lexical_runs"], run_key(pipeline.experiment, "bm25", 5)
    results = results_of(pipeline, stage, pipeline.materialize(stage.name, [key]))
    assert [one.check.name for one in results] == ["queries_answered"], "drift has no result"
    assert tuple(validated(tiny).skipped) == (f"drift: {NO_ANCHOR}",)


def test_scores_of_another_configuration_are_not_compared(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.6)
    otherwise = "Not checked: configured differently than in the anchor: bm25.k1 1.2 -> 0.6."
    result = drift(tiny, "bm25")
    assert (result.summary, result.passed, result.severity) == (otherwise, False, "warning")
    assert result.outcome.numbers == {}
    assert drift(tiny, "both").summary == otherwise
    assert drift(tiny, "vectors").outcome.numbers["psi"] == 0
    found = validated(tiny)
    assert tuple(found.skipped) == (
        "drift of bm25, both: configured differently than in the anchor: bm25.k1 1.2 -> 0.6",
    )


N = 40


def predictions(words: int, refused: int) -> dict[str, str]:
    texts = ["" if n < refused else " ".join(["word"] * (words + n % 3)) for n in range(N)]
    return {f"q{n}": text for n, text in enumerate(texts)}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
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


def drift_of_answers(tiny: Tiny) -> CheckResult:
    tiny.run()
    tiny.snapshot()
    pipeline = tiny.pipeline()
    outcomes = pipeline.materialize("answers", [answers_key("official@-")])
    results = results_of(pipeline, STAGES["answers"], outcomes)
    return next(result for result in results if result.check.name == "drift")


@pytest.mark.parametrize(
    ("words", "refused", "sentences"),
    [
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
    answered: Tiny, tmp_path: Path, words: int, refused: int, sentences: list[str]
) -> None:
    tiny = answered.copy_to(tmp_path / "tiny")
    write_predictions(tiny, predictions(words, refused))
    result = drift_of_answers(tiny)
    assert result.passed == (not sentences)
    assert [one.partition(":")[0] for one in result.outcome.problems] == sentences
    assert result.outcome.numbers["refused"] == refused / N
    assert result.outcome.numbers["refused_in_anchor"] == 0.1
    rows = Validation(tiny.pipeline()).findings.to_pylist()
    told = [row["message"] for row in rows if row["check"] == "drift"]
    assert [one for one in told if "official@-" in one] == [
        f"official@-: {one}" for one in result.outcome.problems
    ]


def test_too_few_answers_are_not_compared(answered: Tiny, tmp_path: Path) -> None:
    tiny = answered.copy_to(tmp_path / "tiny")
    write_predictions(tiny, {f"q{n}": "word" for n in range(19)})
    assert drift_of_answers(tiny).summary == "Not checked: 19 answers are too few, 20 are needed."
