"""Stored rankings, ties, attributions of evidence."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.analysis.recomputed_boards import tie_rows
from rag_assets.analysis.result import EvaluationResult
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.attributions_stage import attributions_key, places
from rag_assets.evaluation.metrics_stage import metrics_key, summary_key
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import Artifact
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import Tiny

TOP_K = (1, 3, 5)


def rankings(tiny: Tiny, retriever: str) -> dict[int, pa.Table]:
    """The stored rankings of a retriever, by depth."""
    pipeline = tiny.pipeline()
    prints = {
        str(cell(pipeline, retriever, top_k).manifest.facts["ranking"]).partition("-")[0]
        for top_k in tiny.config["top_k"]
    }
    found: dict[int, pa.Table] = {}
    for one in prints:
        for depth in pipeline.store.depths("rankings", one):
            artifact = pipeline.store.find("rankings", f"{one}-{depth}")
            assert artifact is not None
            found[depth] = artifact.table()
    return found


def cell(pipeline: Pipeline, retriever: str, top_k: int) -> Artifact:
    return pipeline.artifact(run_key(pipeline.experiment, retriever, top_k))


def by_query(table: pa.Table) -> dict[str, list[dict[str, object]]]:
    rows = defaultdict(list)
    for row in table.to_pylist():
        rows[row["query_id"]].append(row)
    return dict(rows)


@pytest.mark.parametrize("retriever", ["bm25", "bm25-whole", "okapi", "hybrid"])
def test_a_cell_is_exactly_the_first_k_of_the_ranking(
    pipeline_master: Tiny, retriever: str
) -> None:
    (ranking,) = rankings(pipeline_master, retriever).values()
    whole, pipeline = by_query(ranking), pipeline_master.pipeline()
    for top_k in TOP_K:
        artifact = cell(pipeline, retriever, top_k)
        assert (
            "depth" not in artifact.manifest.facts
        )  # that of the ranking, which is none of a cell
        run = by_query(artifact.table())
        assert run == {query: rows[:top_k] for query, rows in whole.items()}
        ranks = [[row["rank"] for row in rows] for rows in run.values()]
        assert ranks == [list(range(1, len(found) + 1)) for found in ranks]
        assert max(map(len, ranks)) <= top_k


def test_candidates_deeper_than_top_k_are_fused_by_the_formula(tiny: Tiny) -> None:
    tiny.configure("shallow", candidates=100)
    tiny.run()
    inputs = [by_query(rankings(tiny, name)[100]) for name in ("bm25", "okapi")]
    fused = cell(tiny.pipeline(), "shallow", 5).table()
    for query, rows in by_query(fused).items():
        scores: dict[object, float] = defaultdict(float)
        for ranking in inputs:
            for row in ranking[query]:
                scores[row["unit_id"]] += 1 / (60 + int(str(row["rank"])))
        best = sorted(scores, key=lambda item: (scores[item], str(item).encode()), reverse=True)
        assert [row["unit_id"] for row in rows] == best[:5]
        assert [row["score"] for row in rows] == pytest.approx([scores[i] for i in best[:5]])


def test_what_a_fusion_reads_below_the_cut_changes_the_version_of_a_cell(tiny: Tiny) -> None:
    def digest_and_version(retriever: str) -> tuple[str, str]:
        pipeline = tiny.pipeline()
        key = run_key(pipeline.experiment, retriever, 1)
        artifact = pipeline.artifact(key)
        return artifact.manifest.digests["all"], pipeline.data_version(artifact, key)

    digest, version = digest_and_version("bm25")
    assert version != digest, "a fusion reads it to the depth of 100"
    digest, version = digest_and_version("okapi")
    tiny.configure("deep", type="rrf", inputs=["bm25-whole", "okapi"], candidates=50)
    tiny.run()
    after = digest_and_version("okapi")
    assert after[0] == digest
    assert after[1] != version


@pytest.fixture(scope="module")
def tied_master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Three documents of the same words; the one that is judged has the lowest id of them."""
    tiny = Tiny(tmp_path_factory.mktemp("tied") / "master")
    for name in "abc":
        tiny.write_document(f"{name}.md", "A dog needs a ticket.")
    tiny.write_document("x.md", "The southern harbour is closed.")
    tiny.write_rows("queries.jsonl", [{"query_id": q, "text": t} for q, t in TIED.items()])
    relevant = {"dog": "a.md", "harbour": "x.md"}
    tiny.write_rows("judgments.jsonl", [{"query_id": q, "doc_id": d} for q, d in relevant.items()])
    lines = [f"{query} Q0 x.md 1 2.0 t\n" for query in TIED]
    (tiny.folder / "one.trec").write_text("".join(lines), encoding="utf-8")
    whole = {"type": "bm25", "chunking": "whole", "analyzer": "english"}
    tiny.config |= {
        "dataset": {"format": "markdown", "judge": "document"},
        "retrievers": {
            "bm25": whole,
            "flat": {**whole, "b": 0},
            "fused": {"type": "rrf", "inputs": ["bm25", "flat"]},
            "given": {"type": "run_file", "path": "one.trec"},
        },
        "chunking": {"whole": {"strategy": "none"}},
        "top_k": [1, 3],
        "metrics": ["mrr", "recall", "map"],
        "primary": "mrr@1",
    }
    tiny.write_config()
    evaluated(tiny.pipeline())
    return tiny


@pytest.fixture
def tied(tied_master: Tiny, tmp_path: Path) -> Tiny:
    """A copy of that experiment, with its evaluation."""
    return tied_master.copy_to(tmp_path / "tied")


TIED = {"dog": "dog ticket", "harbour": "southern harbour"}


def ties(tiny: Tiny, retriever: str, top_k: int) -> dict[str, int | None]:
    rows = tiny.rows(metrics_key(retriever, top_k))
    return {row["query_id"]: row["ties_at_cut"] for row in rows}


def n_tied(tiny: Tiny, retriever: str) -> list[int | None]:
    return [row["n_tied"] for row in tiny.rows(summary_key(retriever))]


def test_every_cell_knows_its_ties(tied_master: Tiny) -> None:
    assert ties(tied_master, "bm25", 1) == {"dog": 2, "harbour": 0}
    assert ties(tied_master, "bm25", 3) == {"dog": 0, "harbour": 0}
    assert n_tied(tied_master, "bm25") == [1, 0]
    assert n_tied(tied_master, "fused") == [0, 0], "the inputs agree on the ranks"
    # An imported run that ends at the cut does not.
    assert ties(tied_master, "given", 1) == {"dog": None, "harbour": None}
    assert ties(tied_master, "given", 3) == {"dog": 0, "harbour": 0}
    assert n_tied(tied_master, "given") == [None, 0]


def test_a_tie_that_comes_below_an_unchanged_run_changes_metrics(tied: Tiny) -> None:
    pipeline = tied.pipeline()
    key = run_key(pipeline.experiment, "bm25", 3)
    before = pipeline.artifact(key).manifest
    tied.write_document("Z.md", "A dog needs a ticket.")  # below the others: Z before a
    tied.run()
    after = tied.pipeline().artifact(key).manifest
    assert set(after.facts["ties_at_cut"]) == {"dog"}
    assert (before.facts["ties_at_cut"], before.rows) == ({}, after.rows)
    assert ties(tied, "bm25", 3) == {"dog": 1, "harbour": 0}
    assert n_tied(tied, "bm25") == [1, 1]


def test_what_the_order_is_worth(tied: Tiny) -> None:
    result = EvaluationResult.current(tied.artifacts)
    rows = tie_rows(result, ["bm25", "given"], 1)
    found = {(row["retriever"], row["metric"]): row for row in rows}
    assert set(found) == {(n, f"{m}@1") for n in ("bm25", "given") for m in ("mrr", "recall")}
    bm25 = found["bm25", "mrr@1"]
    # dog: c.md is first, a.md the one that is relevant; harbour: no tie.
    assert [bm25[part] for part in ("worst", "value", "best")] == [0.5, 0.5, 1]
    assert (bm25["n_tied"], bm25["n_queries_that_differ"], bm25["n_queries"]) == (1, 1, 2)
    assert found["given", "mrr@1"]["n_tied"] is None
    values = {row["retriever"]: row for row in result.leaderboard.to_pylist() if row["top_k"] == 1}
    assert values["bm25"]["mrr"] == bm25["value"]
    text = "\n".join(shown(result))
    assert "bm25, flat: equal scores on both sides of the cut in 1 of 2 queries" in text
    # Without the stored ranking: from the deepest run that was cut from it.
    for file in tied.objects("rankings").rglob("*.parquet"):
        file.unlink()
    assert tie_rows(result, ["bm25", "given"], 1) == rows


def test_no_bounds_where_tied_units_satisfy_one_evidence(tied: Tiny) -> None:
    two = [{"query_id": "dog", "doc_id": f"{d}.md", "evidence_id": "e"} for d in "ab"]
    tied.write_rows("judgments.jsonl", two)
    rows = tie_rows(evaluated(tied.pipeline()), ["bm25"], 1)
    recall, mrr = sorted(rows, key=lambda row: str(row["metric"]), reverse=True)
    assert recall["best"] is None
    assert "cannot be bounded over tied" in str(recall["why"])
    assert mrr["best"] == 1
    assert json.dumps(rows)


def test_no_measure_with_bounds(tied: Tiny) -> None:
    tied.config |= {"metrics": ["map"], "primary": "map@1"}
    tied.write_config()
    with pytest.raises(NotEvaluated, match=r"has no cell at top_k 1 .* one of hit_rate, mrr"):
        tie_rows(evaluated(tied.pipeline()), ["bm25"], 1)


def attributed(tiny: Tiny, retriever: str) -> dict[str, dict[str, Any]]:
    """Query and evidence -> the row of one retriever."""
    rows = tiny.rows(attributions_key(tiny.pipeline().experiment, retriever))
    return {f"{row['query_id']} {row['evidence_id']}": row for row in rows}


@pytest.fixture(scope="module")
def at_1(pipeline_master: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The experiment with recall at 1 as its primary metric, computed; tests only read it."""
    tiny = pipeline_master.copy_to(tmp_path_factory.mktemp("attributions") / "at_1")
    tiny.config |= {"metrics": ["ndcg", "recall"], "primary": "recall@1"}
    tiny.configure("narrow", type="rrf", inputs=["bm25", "bm25-whole"], candidates=1)
    tiny.run()
    return tiny


def test_the_share_found_is_the_recall_of_the_same_cell(at_1: Tiny) -> None:
    pipeline = at_1.pipeline()
    lost = 0
    for name in at_1.config["retrievers"]:
        found = places(pipeline.artifact(attributions_key(pipeline.experiment, name)).table())
        recalls = pipeline.artifact(metrics_key(name, 1)).table().column("recall").to_pylist()
        assert found is not None
        assert found.recall == pytest.approx(sum(recalls) / len(recalls), abs=1e-12)
        lost += found.n_evidences - found.counts["found"]
    assert lost >= len(at_1.config["retrievers"])  # q3 has two evidences, and one rank


def test_what_no_input_hands_over_is_below_the_candidates(at_1: Tiny) -> None:
    (second,) = [row for row in attributed(at_1, "narrow").values() if row["lost_at"] != "found"]
    assert (second["lost_at"], second["input_ranks"]) == ("below_candidates", [None, None])
    assert second["inputs"] == ["bm25", "bm25-whole"]
    deep = attributed(at_1, "hybrid")[f"{second['query_id']} {second['evidence_id']}"]
    assert deep["lost_at"] == "cut_at_k"
    assert None not in deep["input_ranks"]


def test_a_fusion_of_lists_cut_at_top_k_is_looked_at_in_the_primary_cell(at_1: Tiny) -> None:
    """Its other cells are rankings of their own, whose deeper candidates are not those fused."""
    (second,) = [row for row in attributed(at_1, "shallow").values() if row["lost_at"] != "found"]
    assert (second["lost_at"], second["rank"]) == ("below_candidates", None)
    assert second["input_ranks"] == [None, None]
