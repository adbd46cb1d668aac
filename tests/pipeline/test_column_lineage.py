from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.experiment.experiment import Experiment
from rag_assets.pipeline.column_lineage import OPEN, ORIGINS, PRIMARY, ColumnLineage
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import TableSchema
from tests.tiny_experiment import MINILM, Tiny

TABLES: dict[str, TableSchema] = {s.schema.name: s.schema for s in STAGES.values() if s.schema}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    tiny = Tiny(tmp_path_factory.mktemp("origins"))
    tiny.config["retrievers"] |= MINILM
    tiny.config["metrics"] = ["mrr", "ndcg", "recall@3"]
    return tiny.write().pipeline().experiment


def test_every_table_is_declared() -> None:
    assert set(ORIGINS) == set(TABLES)


@pytest.mark.parametrize("table", sorted(TABLES))
def test_declared_columns_and_their_origins_exist(table: str) -> None:
    for column, texts in ORIGINS[table].items():
        assert _has(TABLES[table], column), column
        for text in texts.replace("|", " ").split():
            above, name = text.split(".")
            assert _has(TABLES[above], OPEN if name == PRIMARY else name), text


def _has(schema: TableSchema, column: str) -> bool:
    return schema.open_columns if column == OPEN else column in schema.arrow().names


def test_every_origin_is_found_above_and_nothing_beside(experiment: Experiment) -> None:
    origins = ColumnLineage(experiment)
    place = {name: number for number, name in enumerate(STAGES)}
    for stage in STAGES.values():
        if stage.schema is None or not stage.keys(experiment):
            continue
        found = origins.of(stage)
        columns = {column for column in ORIGINS[stage.schema.name] if column != OPEN}
        if stage.name == "queries":
            columns = set()  # they are read from files here
        assert set(found) >= columns, stage.name
        for pairs in found.values():
            for asset, column in pairs:
                assert place[asset] < place[stage.name]
                schema = STAGES[asset].schema
                assert schema is not None
                assert column in schema.arrow().names or column in experiment.metrics


def test_what_a_score_and_a_metric_are_made_of(experiment: Experiment) -> None:
    origins = ColumnLineage(experiment)
    assert origins.of(STAGES["lexical_runs"])["score"] == [
        ("lexical_queries", "text"),
        ("chunks", "text"),
    ]
    # A query encoder knows texts from the query sets; its own table holds vectors.
    assert origins.of(STAGES["embedding_runs"])["unit_id"] == [("chunks", "chunk_id")]
    assert origins.of(STAGES["fused_runs"])["chunk_id"] == [
        ("lexical_runs", "chunk_id"),
        ("embedding_runs", "chunk_id"),
    ]
    assert ("relevant_units", "grade") in origins.of(STAGES["metrics"])["ndcg"]
    summary = [("metrics", "mrr"), ("query_facts", "weight"), ("query_facts", "split")]
    assert origins.of(STAGES["metrics_summary"])["mrr"] == summary
    assert origins.of(STAGES["leaderboard"])["mrr"] == [("metrics_summary", "mrr")]
    means = origins.of(STAGES["intervals"])["mean"]
    assert [column for asset, column in means if asset == "metrics"] == list(experiment.metrics)
    assert origins.of(STAGES["comparisons"])["difference"][0] == ("metrics", "ndcg")


def test_without_labels_there_is_less_above(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path)
    tiny.config = {"name": "bare", "retrievers": {n: {"type": "bm25"} for n in "ab"}}
    tiny.write()
    (tiny.folder / "judgments.jsonl").unlink()
    origins = ColumnLineage(tiny.pipeline().experiment)
    assert origins.of(STAGES["overlaps"])["rbo"] == [
        ("lexical_runs", "rank"),
        ("lexical_runs", "unit_id"),
    ]
    assert origins.of(STAGES["lexical_index"]) == {}
