"""Evaluations as snapshots, and what differs between two."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rag_assets.analysis.comparability import comparability
from rag_assets.analysis.comparisons import Comparison
from rag_assets.analysis.diff import changes_between
from rag_assets.analysis.evaluation_pairs import EvaluationPair
from rag_assets.analysis.metric_sources import Retrieval
from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import StoreError, UsageError
from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.pipeline import evaluation_record
from rag_assets.pipeline.evaluations import read_current
from rag_assets.statistics.stage import COMPARISONS_KEY
from rag_assets.store.atomic import write_text
from tests.tiny_experiment import JUDGMENTS, QUERIES, Tiny

TOP_K = (1, 3, 5)


def test_a_snapshot_names_every_artifact_with_its_checksums(tiny: Tiny) -> None:
    evaluation = tiny.snapshot()
    assert read_current(tiny.artifacts) == evaluation
    assert evaluation.complete
    counted = [entry.partition["analysis"] for entry in evaluation.entries_of("term_counts")]
    assert sorted(counted) == ["parts:english", "parts:standard", "whole:english"]
    assert len(evaluation.entries) == 71 + len(counted)
    for entry in evaluation.entries:
        artifact = tiny.pipeline().artifact(entry.key)
        assert tiny.settings.store / entry.path == artifact.path
        assert entry.digest == artifact.manifest.digests["all"]
        assert entry.fingerprint == artifact.manifest.fingerprint
    ranked = {entry.partition["retriever"] for entry in evaluation.rankings}
    assert ranked == {*tiny.config["retrievers"]}
    for entry in (*evaluation.entries, *evaluation.rankings):
        folder = tiny.settings.store / entry.path
        found = {file.name for file in folder.rglob("*") if file.is_file()}
        assert {Path(name).name for name in entry.files} | {"manifest.json"} == found
        for name, stated in entry.files.items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == stated


def test_the_old_state_stays_until_the_last_moment(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny.snapshot()
    tiny.configure("bm25", k1=0.4)
    tiny.run()
    assert read_current(tiny.artifacts) == old
    seen = []

    def spy(path: Path, text: str) -> None:
        seen.append((path.name, read_current(tiny.artifacts)))
        write_text(path, text)

    monkeypatch.setattr(evaluation_record, "write_text", spy)
    new = tiny.snapshot()
    assert seen == [(f"{new.evaluation_id}.json", old), ("current", old)]
    assert read_current(tiny.artifacts) == new
    assert new.content != old.content


def test_a_damaged_snapshot_is_a_store_error(tiny: Tiny) -> None:
    file = tiny.artifacts / "evaluations" / f"{tiny.snapshot().evaluation_id}.json"
    for content in ("", "{", "{}", "[]", "null"):
        file.write_text(content)
        with pytest.raises(StoreError, match=r"\.json: is not a readable evaluation"):
            read_current(tiny.artifacts)


def again(tiny: Tiny) -> tuple[EvaluationResult, EvaluationResult]:
    """Evaluate what was changed, and return the evaluation before and the new one."""
    before = EvaluationResult.current(tiny.artifacts)
    tiny.run()
    tiny.snapshot()
    return before, EvaluationResult.current(tiny.artifacts)


def texts(results: tuple[EvaluationResult, EvaluationResult]) -> list[str]:
    return [reason.text for reason in changes_between(*results)]


def test_a_parameter(tiny: Tiny) -> None:
    tiny.configure("bm25", k1=0.4)
    results = again(tiny)
    assert texts(results) == ["bm25.k1 1.2 -> 0.4"]
    words = ("previous", "latest", "--format", "json", "--metric", "mrr")
    found = json.loads(tiny.command("diff", ".", *words).stdout)
    assert found["a"] == results[0].evaluation.evaluation_id
    assert found["changes"] == [{"what": "bm25.k1", "old": "1.2", "new": "0.4"}]
    assert found["not_comparable"] == []
    assert {row["metric"] for row in found["metrics"]} == {"mrr@5"}


def test_a_metric_that_one_of_both_lacks(tiny: Tiny) -> None:
    tiny.config |= {"metrics": ["map"], "primary": "map@5"}
    tiny.write_config()
    again(tiny)
    told = tiny.command("diff", ".", "previous", "latest")
    assert "no retriever has map@5 in both evaluations; --metric names another one" in told.stdout
    assert "on 0 queries" not in told.stdout


def test_a_retriever_that_came_and_one_that_went(tiny: Tiny) -> None:
    tiny.config["retrievers"]["new"] = tiny.config["retrievers"].pop("shallow")
    tiny.write_config()
    results = again(tiny)
    assert texts(results) == ["retriever new added", "retriever shallow removed"]
    queries = comparability(*results).chosen(intersection=False)
    rows = EvaluationPair.between(*results, Retrieval(results[1].primary), queries).changes()
    assert "new" not in {row["retriever"] for row in rows}


def test_the_intersection_is_what_both_ask_alike(tiny: Tiny) -> None:
    queries = [dict(row) for row in QUERIES[:5]]
    queries[0]["text"] = "may a dog come"
    tiny.write_rows("queries.jsonl", [*queries, {"query_id": "q7", "text": "first ferry"}])
    label = {"query_id": "q7", "doc_id": "timetable.md", "quote": "The first ferry leaves"}
    tiny.write_rows("judgments.jsonl", [*JUDGMENTS[:-1], label])
    results = again(tiny)
    refused = tiny.command("diff", ".", "previous", "latest")
    assert refused.exit_code == 1
    assert "1 judgment added, 1 removed" in refused.stdout
    assert "ndcg@5 on" not in refused.stdout
    assert "--intersection compares on the 4 queries" in refused.stderr
    told = tiny.command("diff", ".", "previous", "latest", "--intersection")
    assert told.exit_code == 0
    assert "ndcg@5 on 4 queries" in told.stdout
    found = comparability(*results)
    assert [reason.text for reason in found.reasons] == [
        "1 labelled query added",
        "1 labelled query removed",
        "1 labelled query with another text",
    ]
    assert found.shared == {"q2", "q3", "q4", "q5"}
    rows = EvaluationPair.between(*results, Retrieval(parse_metric("mrr@3")), found.shared).changes(
        ["bm25"]
    )
    old, new = (
        {row["query_id"]: row["mrr"] for row in one.query_metrics(3)["bm25"].to_pylist()}
        for one in results
    )
    assert rows[0]["n"] == 4
    assert rows[0]["old"] == sum(old[q] for q in found.shared) / 4
    assert rows[0]["new"] == sum(new[q] for q in found.shared) / 4


def test_two_retrievers_of_one_evaluation_are_compared_as_the_evaluation_did(tiny: Tiny) -> None:
    result = EvaluationResult.current(tiny.artifacts)
    for expected in result.table(COMPARISONS_KEY).to_pylist():
        pair = expected["retriever_a"], expected["retriever_b"]
        assert Comparison.of(result, pair).rows == [expected]


def test_another_unit_is_never_comparable(tiny: Tiny) -> None:
    tiny.config["dataset"]["judge"] = "document"
    tiny.write_config()
    with pytest.raises(UsageError, match=r"judges each evidence, .* each document"):
        comparability(*again(tiny))
