"""The same labels of SQuAD under several chunkings: R stays, and nothing is lost uncounted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml

from rag_assets.chunking.stage import chunks_key
from rag_assets.evaluation.dialects.squad_v2_official import read_golds
from rag_assets.evaluation.metric_names import parse_metric
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.metrics_stage import Metrics, metrics_key
from rag_assets.evaluation.relevant_units_stage import relevant_units, relevant_units_key
from rag_assets.experiment import load_experiment
from rag_assets.labels.findings import unreachable_evidence
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.selection import Selection
from rag_assets.pipeline.stages import required_partitions
from rag_assets.sources.stage import QRELS_KEY, QUERIES_KEY
from rag_assets.store.settings import StoreSettings
from tests.labels.health.tables import Span, chunks, qrels, reached
from tests.made_tables import query_table, run_table

pytestmark = pytest.mark.real_data

CHUNKINGS = {
    "whole": {"strategy": "none"},
    "tokens_60": {"strategy": "recursive", "max_tokens": 60, "overlap": 0},
    "tokens_12": {"strategy": "recursive", "max_tokens": 12, "overlap": 3},
}
N_QUERIES, N_UNANSWERABLE = 11_873, 5_945


@pytest.fixture(scope="module")
def pipeline(
    shared_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Pipeline:
    """Chunks, labels and metrics; rankings are empty, as nothing here depends on them."""
    root = tmp_path_factory.mktemp("squad")
    data = shared_data("squad_dev_v2") / "dev-v2.0.rebuilt.json"
    with (root / "run.jsonl").open("w", encoding="utf-8") as file:
        for query_id in read_golds(data):
            file.write(json.dumps({"query_id": query_id, "retrieved_ids": []}) + "\n")
    empty = {"type": "run_file", "path": "run.jsonl"}
    config = {
        "name": "squad",
        "dataset": {"path": str(data)},
        "chunking": CHUNKINGS,
        "retrievers": {name: {**empty, "chunking": name} for name in CHUNKINGS},
        "top_k": [10],
        "metrics": ["recall", "ndcg"],
    }
    (root / "experiment.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    pipeline = Pipeline(load_experiment(root), StoreSettings.resolve(root / "store"))
    for asset, keys in required_partitions(
        pipeline.experiment, Selection.of(pipeline.experiment)
    ).items():
        pipeline.materialize(asset, keys)
        if asset == Metrics.name:
            break  # what comes after them is not looked at
    return pipeline


def counts(pipeline: Pipeline, chunking: str) -> pa.Table:
    return pipeline.artifact(metrics_key(chunking, 10)).table().sort_by("query_id")


@pytest.mark.slow
def test_chunkings_differ_and_r_of_every_query_is_the_same(pipeline: Pipeline) -> None:
    sizes = [pipeline.artifact(chunks_key(name)).manifest.rows for name in CHUNKINGS]
    assert 1_204 == sizes[0] < sizes[1] < sizes[2]
    relevant = {name: counts(pipeline, name).column("n_relevant") for name in CHUNKINGS}
    assert relevant["tokens_60"].equals(relevant["whole"])
    assert relevant["tokens_12"].equals(relevant["whole"])
    assert len(relevant["whole"]) == N_QUERIES == pipeline.artifact(QUERIES_KEY).manifest.rows
    assert pc.sum(pc.equal(relevant["whole"], 0)).as_py() == N_UNANSWERABLE


@pytest.mark.parametrize("name", CHUNKINGS)
def test_every_evidence_is_reached(pipeline: Pipeline, name: str) -> None:
    """By the rule, in plain Python too: blanks belong to a chunk, so none is cut around one."""
    qrels = pipeline.artifact(QRELS_KEY).table()
    chunks = pipeline.artifact(chunks_key(name)).table()
    pieces: dict[str, list[tuple[int, int]]] = {}
    for row in chunks.select(["document_id", "start", "end"]).to_pylist():
        pieces.setdefault(row["document_id"], []).append((row["start"], row["end"]))
    hits: dict[tuple[str, str], list[bool]] = {}
    for row in qrels.to_pylist():
        hit = any(satisfies(c, (row["start"], row["end"])) for c in pieces[row["document_id"]])
        hits.setdefault((row["query_id"], row["evidence_id"]), []).append(hit)
    assert all(map(any, hits.values()))
    assert pc.sum(counts(pipeline, name).column("n_unreachable")).as_py() == 0
    judged = {name: pipeline.artifact(relevant_units_key(name)).table()}
    assert unreachable_evidence(judged, qrels) == []


def satisfies(chunk: tuple[int, int], evidence: tuple[int, int]) -> bool:
    shared = min(chunk[1], evidence[1]) - max(chunk[0], evidence[0])
    shortest = min(chunk[1] - chunk[0], evidence[1] - evidence[0])
    return shared > 0 and 2 * shared >= shortest


PAGE = Path(__file__).resolve().parents[3] / "docs" / "evidence.md"
SECTION = r"^## (.*?)$(.*?)(?=^## |\Z)"
EXAMPLES = [
    pytest.param(yaml.safe_load(block), id=f"{heading.strip()} {number}")
    for heading, body in re.findall(SECTION, PAGE.read_text("utf-8"), re.M | re.S)
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", body, re.S), 1)
]


def span(text: str, quote: str) -> Span:
    assert text.count(quote) == 1, quote
    return text.index(quote), text.index(quote) + len(quote)


def test_the_page_has_all_worked_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example: dict[str, Any]) -> None:
    text = example["document"]
    labels = qrels(
        *[
            ("q", name, "d", span(text, quote), 1)
            for name, quotes in example["evidence"].items()
            for quote in quotes
        ]
    )
    pieces = {name: span(text, piece) for name, piece in example["chunks"].items()}
    ids = {name: f"d#{start}-{end}" for name, (start, end) in pieces.items()}
    cut = chunks({"d": text}, {"d": list(pieces.values())})
    judged = relevant_units(labels, cut, "evidence")
    expected = {
        evidence: sorted(ids[name].removeprefix("d#") for name in names)
        for evidence, names in example["satisfied_by"].items()
    }
    assert {name: sorted(units) for name, units in reached(labels, cut).items()} == expected
    runs = {"run": run_table({"q": [ids[name] for name in example["ranking"]]})}
    wanted = {name: parse_metric(name) for name in example["metrics"]}
    cells = sorted({("run", metric.cutoff or 0) for metric in wanted.values()})
    found = query_metrics(runs, {"j": judged}, {"run": "j"}, query_table(["q"]), cells)
    for name, metric in wanted.items():
        row = found["run", metric.cutoff or 0].to_pylist()[0]
        assert row["n_relevant"] == len(example["evidence"])
        assert row[metric.measure] == pytest.approx(example["metrics"][name], abs=1e-6), name
