"""Checks of served models and of what a tokenizer can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from rag_assets.checks.asset_checks import checks_of, results_of
from rag_assets.checks.check import CheckResult
from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import metrics_key
from rag_assets.pipeline.stages import STAGES
from rag_assets.query_sets.stage import answers_key
from rag_assets.retrieval.base_runs_stage import index_key
from rag_assets.schemas import COMPARISONS
from rag_assets.sources.stage import DOCUMENTS_KEY, QRELS_KEY
from rag_assets.statistics.comparisons import regressions
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.artifacts import ArtifactKey
from tests.llm.server import Received, Reply, Server, json_reply, serving
from tests.tiny_experiment import QUERIES, Tiny, damage, drop_query, set_cell


def checked(tiny: Tiny) -> list[CheckResult]:
    tiny.run()
    pipeline, key = tiny.pipeline(), answers_key("clear")
    return results_of(pipeline, STAGES[key.asset], pipeline.materialize(key.asset, [key]))


def served_by(server: Server, name: str | None) -> None:
    def reply(request: Received) -> Reply:
        message = {"role": "assistant", "content": f"clear {len(request.text)}"}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        head = {"id": "x", "object": "chat.completion", "model": name}
        server.received.append(request)
        return json_reply({**head, "choices": choices})

    server.reply = reply  # type: ignore[method-assign]


def test_another_model_behind_the_name_fails(fresh: Tiny, computed: Tiny) -> None:
    fresh.start_from(computed)
    with serving() as server:
        fresh.config["llm"] = {"model": "m", "base_url": server.base_url, "api_key_env": None}
        fresh.config["query_sets"] = {"clear": {"strategy": "rewrite"}}
        kept = {**fresh.config["retrievers"]["bm25"], "query_set": "clear"}
        fresh.config |= {"retrievers": {"bm25": kept}, "top_k": [5]}
        fresh.write_config()
        served_by(server, "m-2026-01")
        (result,) = checked(fresh)
        assert (result.passed, result.severity) == (True, "warning")
        assert len(server.received) == 6
        served_by(server, "m-2026-02")
        assert checked(fresh)[0].passed  # nothing is asked
        fresh.write_rows("queries.jsonl", [*QUERIES, {"query_id": "q7", "text": "new", "tags": []}])
        (result,) = checked(fresh)
        assert len(server.received) == 7
        assert not result.passed
        assert result.summary == (
            "The server answered by the model m-2026-02, and before by m-2026-01: set `model` "
            "to the one you mean, with its version"
        )
        fresh.config["llm"]["model"] = "other"
        fresh.write_config()
        served_by(server, None)
        assert checked(fresh) == []


def test_what_a_model_cannot_read_is_noted_with_its_index(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.folder.mkdir(parents=True)
    corpus = [{"_id": "d0", "title": "", "text": "港口在早上六点开放"}]
    tiny.write_rows("corpus.jsonl", corpus)
    tiny.write_rows("queries.jsonl", [{"_id": "q0", "text": "狗需要一张十克朗的票。"}])
    tiny.config = {"name": "languages", "retrievers": {"minilm": {"type": "embedding"}}}
    tiny.config |= {"top_k": [1]}
    tiny.write_config()
    done = CliRunner().invoke(
        main, ["evaluate", str(tiny.folder), "--store", str(tiny.settings.store)]
    )
    assert done.exit_code == 0, done.output
    (note,) = tiny.pipeline().artifact(index_key("embedding", "minilm")).manifest.facts["notes"]
    model = "its model 'sentence-transformers/all-MiniLM-L6-v2'"
    assert f"of the tokens of the chunks are unknown to {model}; choose a model for" in note
    assert "note: embedding_index: minilm: " in " ".join(done.stderr.split())


RUN = ArtifactKey.of("lexical_runs", retriever="bm25", top_k=3)
METRICS = metrics_key("bm25", 3)


@pytest.fixture
def tiny(computed: Tiny, tmp_path: Path) -> Tiny:
    return computed.copy_to(tmp_path / "tiny")


def results(tiny: Tiny, key: ArtifactKey) -> dict[str, CheckResult]:
    pipeline = tiny.pipeline()
    outcomes = pipeline.materialize(key.asset, [key])
    return {r.check.name: r for r in results_of(pipeline, STAGES[key.asset], outcomes)}


def test_all_is_well(computed: Tiny) -> None:
    pipeline = computed.pipeline()
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
    assert {name: checks for name, checks in checked.items() if checks} == {
        "documents": ["label_health"],
        "qrels": ["label_health"],
        "lexical_runs": ["queries_answered"],
        "fused_runs": ["queries_answered"],
        "metrics": ["ties_at_the_cut"],
        "comparisons": ["no_regression"],
    }


@pytest.mark.parametrize(
    ("key", "change", "check", "summary"),
    [
        (RUN, drop_query("q2"), "queries_answered", "query 'q2': nothing was retrieved"),
        (
            METRICS,
            set_cell("ties_at_cut", 0, 4),
            "ties_at_the_cut",
            "query 'q1': units below the cut with the score of the last one above it: 4",
        ),
        (QRELS_KEY, set_cell("document_id", 0, "no.md"), "label_health", "unknown_id: "),
    ],
)
def test_damage_is_found(
    tiny: Tiny, key: ArtifactKey, change: Callable[[pa.Table], pa.Table], check: str, summary: str
) -> None:
    damage(tiny, key, change)
    result = results(tiny, key)[check]
    assert not result.passed
    assert result.summary.startswith(summary)


def test_a_failure_is_told_apart_from_nothing_retrieved(tiny: Tiny) -> None:
    damage(tiny, RUN, drop_query("q2"))
    pipeline = tiny.pipeline()
    (outcome,) = pipeline.materialize(RUN.asset, [RUN])
    manifest = replace(outcome.artifact.manifest, failures={"q2": "no answer"})
    failed = replace(outcome, artifact=replace(outcome.artifact, manifest=manifest))
    (result,) = results_of(pipeline, STAGES[RUN.asset], [failed])
    assert result.summary == "query 'q2': the retriever failed"


def no_value(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        column = table.schema.get_field_index(name)
        nulls = pa.nulls(len(table), table.schema.field(name).type)
        return table.set_column(column, table.schema.field(name), nulls)

    return change


@pytest.mark.parametrize(
    ("key", "change", "check", "reason"),
    [
        (METRICS, no_value("ties_at_cut"), "ties_at_the_cut", "the scores below the cut"),
        (COMPARISONS_KEY, no_value("p_randomisation"), "no_regression", "no retriever could be"),
    ],
)
def test_a_check_that_could_look_at_nothing_does_not_pass(
    tiny: Tiny, key: ArtifactKey, change: Callable[[pa.Table], pa.Table], check: str, reason: str
) -> None:
    damage(tiny, key, change)
    result = results(tiny, key)[check]
    assert result.summary.startswith(f"Not checked: {reason}")
    assert (result.passed, result.severity) == (False, "warning")


def test_two_documents_with_one_text_are_a_warning(tiny: Tiny) -> None:
    tiny.write_document("copy.md", (tiny.folder / "lost.md").read_text())
    result = results(tiny, DOCUMENTS_KEY)["label_health"]
    assert not result.passed
    assert result.outcome.numbers == {"errors": 0, "warnings": 1}
    assert result.summary.startswith("duplicate_document: document 'lost.md'")


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
