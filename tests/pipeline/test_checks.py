"""Every check on the tiny experiment as it is, and on really damaged data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.checks.asset_checks import checks_of, results_of, results_of_unreadable
from rag_assets.checks.check import CheckResult
from rag_assets.errors import DataError
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import COMPARISONS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.statistics.comparisons import regressions
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.tiny_experiment import Tiny, damage, drop_query, set_cell

RUN = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)
METRICS = metrics_key("bm25", 3)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("checks") / "tiny").write()
    tiny.run()
    return tiny


@pytest.fixture
def tiny(evaluated: Tiny, tmp_path: Path) -> Tiny:
    return evaluated.copy_to(tmp_path / "tiny")


def results(tiny: Tiny, key: ArtifactKey) -> dict[str, CheckResult]:
    pipeline = tiny.pipeline()
    outcomes = pipeline.materialize(key.asset, [key])
    return {r.check.name: r for r in results_of(pipeline, STAGES[key.asset], outcomes)}


def test_all_is_well(evaluated: Tiny) -> None:
    pipeline = evaluated.pipeline()
    checked = {}
    for stage in pipeline.stages():
        outcomes = pipeline.materialize(stage.name, stage.keys(pipeline.experiment))
        found = results_of(pipeline, stage, outcomes)
        asked = [check for check in checks_of(stage) if check.name != "drift"]  # no anchor
        assert len(found) == len(outcomes) * len(asked)
        failed = {result.check.name for result in found if not result.passed}
        # Short texts tie: that is told, and true.
        assert failed <= {"ties_at_the_cut"}
        checked[stage.name] = sorted({result.check.name for result in found})
    runs = ["ids_exist", "queries_answered", "ranks_and_scores"]
    assert {name: checks for name, checks in checked.items() if checks} == {
        "documents": ["label_health"],
        "queries": ["label_health"],
        "qrels": ["label_health"],
        "lexical_runs": runs,
        "fused_runs": runs,
        "metrics": ["metrics_in_bounds", "run_complete", "ties_at_the_cut"],
        "comparisons": ["no_regression"],
    }


@pytest.mark.parametrize(
    ("key", "change", "check", "summary", "blocks"),
    [
        (RUN, drop_query("q2"), "queries_answered", "query 'q2': nothing was retrieved", False),
        (RUN, set_cell("rank", 0, 7), "ranks_and_scores", "query 'q1': rank 2 stands", True),
        (RUN, set_cell("score", 0, -1.0), "ranks_and_scores", "query 'q1': the score", True),
        (RUN, set_cell("chunk_id", 0, "gone.md"), "ids_exist", "chunk_id 'gone.md' does", True),
        (RUN, set_cell("query_id", 0, "q9"), "ids_exist", "query_id 'q9' does not exist", True),
        (METRICS, set_cell("ndcg", 1, 1.5), "metrics_in_bounds", "query 'q2': ndcg is 1.5", True),
        (METRICS, drop_query("q3"), "run_complete", "query 'q3': 0 rows of metrics", False),
        (
            METRICS,
            set_cell("ties_at_cut", 0, 4),
            "ties_at_the_cut",
            "query 'q1': units below the cut that score as the last one above it: 4",
            False,
        ),
        (QRELS_KEY, set_cell("document_id", 0, "no.md"), "label_health", "unknown_id: ", True),
    ],
)
def test_damage_is_found(
    tiny: Tiny,
    key: ArtifactKey,
    change: Callable[[pa.Table], pa.Table],
    check: str,
    summary: str,
    blocks: bool,
) -> None:
    damage(tiny, key, change)
    result = results(tiny, key)[check]
    assert not result.passed
    assert result.summary.startswith(summary)
    assert result.blocks == blocks


def no_value(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        column = table.schema.get_field_index(name)
        nulls = pa.nulls(len(table), table.schema.field(name).type)
        return table.set_column(column, table.schema.field(name), nulls)

    return change


@pytest.mark.parametrize(
    ("key", "change", "check", "reason"),
    [
        (RUN, lambda t: t.slice(0, 0), "ranks_and_scores", "nothing was retrieved for any query"),
        (RUN, lambda t: t.slice(0, 0), "ids_exist", "nothing was retrieved for any query"),
        (METRICS, lambda t: t.slice(0, 0), "metrics_in_bounds", "no query has a value"),
        (METRICS, no_value("ties_at_cut"), "ties_at_the_cut", "what scored as much below the cut"),
        (COMPARISONS_KEY, no_value("p_randomisation"), "no_regression", "no retriever could be"),
    ],
)
def test_a_check_that_could_look_at_nothing_does_not_pass(
    tiny: Tiny,
    key: ArtifactKey,
    change: Callable[[pa.Table], pa.Table],
    check: str,
    reason: str,
) -> None:
    damage(tiny, key, change)
    result = results(tiny, key)[check]
    assert result.summary.startswith(f"Not checked: {reason}")
    assert (result.passed, result.severity, result.blocks) == (False, "warning", False)


def test_two_documents_with_one_text_are_a_warning(tiny: Tiny) -> None:
    tiny.write_document("copy.md", (tiny.folder / "lost.md").read_text())
    result = results(tiny, DOCUMENTS_KEY)["label_health"]
    assert (result.passed, result.blocks) == (False, False)
    assert result.outcome.numbers == {"errors": 0, "warnings": 1}
    assert result.summary.startswith("duplicate_document: document 'lost.md'")


def test_labels_that_cannot_be_read_are_all_told(tiny: Tiny) -> None:
    tiny.replace("judgments.jsonl", "A dog needs a ticket", "A cat needs a ticket")
    tiny.replace("judgments.jsonl", "safety/fire.md", "safety/ice.md")
    pipeline = tiny.pipeline()
    pipeline.materialize("documents", [DOCUMENTS_KEY])
    with pytest.raises(DataError) as error:
        pipeline.materialize("qrels", [QRELS_KEY])
    (result,) = results_of_unreadable(pipeline, STAGES["qrels"], error.value)
    assert result.blocks
    assert result.outcome.numbers == {"errors": 2, "warnings": 0}
    first, second = result.outcome.problems
    assert first.startswith("quote_vanished: ")
    assert "judgments.jsonl:1" in first
    assert second.startswith("unknown_id: ")


def test_a_retriever_worse_than_the_baseline(tiny: Tiny) -> None:
    worse = {"p_randomisation": 0.001, "p_adjusted": 0.01, "difference": -0.3}
    row = {"retriever_a": "bm25", "retriever_b": "okapi"}

    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        for one in rows:
            if one.items() >= row.items():
                one.update(worse)
        return COMPARISONS.from_rows(rows)

    damage(tiny, COMPARISONS_KEY, change)
    result = results(tiny, COMPARISONS_KEY)["no_regression"]
    assert not result.passed
    assert result.outcome.severity == "warning"
    assert result.summary == "okapi is worse than bm25 on ndcg@5 (all) by 0.3000, p = 0.0100"
    tiny.config["checks"] = {"regression": "error"}
    tiny.write_config()
    assert results(tiny, COMPARISONS_KEY)["no_regression"].outcome.severity == "error"
    # Seen from the other side it is the baseline that is better.
    table = tiny.pipeline().artifact(COMPARISONS_KEY).table()
    assert regressions(table, "okapi") == []
    assert regressions(table, "hybrid") == []
