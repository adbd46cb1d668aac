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
from rag_assets.store.artifacts import Artifact, ArtifactKey
from tests.shown_board import evaluated, shown
from tests.tiny_experiment import QUERIES, Tiny

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
@pytest.mark.parametrize("top_k", [1, 3, 5])
def test_a_cell_is_exactly_the_first_k_of_the_ranking(
    tiny: Tiny, retriever: str, top_k: int
) -> None:
    (ranking,) = rankings(tiny, retriever).values()
    whole = by_query(ranking)
    artifact = cell(tiny.pipeline(), retriever, top_k)
    assert "depth" not in artifact.manifest.facts  # that of the ranking, which is none of a cell
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
    """The first of q1 stays; a document far below changes, which the deep fusion reads."""
    pipeline = tiny.pipeline()
    before = cell(pipeline, "bm25", 1)
    version = pipeline.data_version(before, run_key(pipeline.experiment, "bm25", 1))
    digest = before.manifest.digests["all"]
    assert version != digest
    okapi = cell(pipeline, "okapi", 1)
    tiny.configure("deep", type="rrf", inputs=["bm25-whole", "okapi"], candidates=50)
    tiny.run()
    pipeline = tiny.pipeline()
    assert cell(pipeline, "okapi", 1).manifest.digests == okapi.manifest.digests
    key = run_key(pipeline.experiment, "okapi", 1)
    assert pipeline.data_version(okapi, key) != tiny_version(tiny, key)


def tiny_version(tiny: Tiny, key: ArtifactKey) -> str:
    """The version of a partition in an experiment without the retriever ``deep``."""
    del tiny.config["retrievers"]["deep"]
    tiny.write_config()
    pipeline = tiny.pipeline()
    return pipeline.data_version(pipeline.artifact(key), key)


@pytest.fixture
def tied(tmp_path: Path) -> Tiny:
    """Three documents of the same words; the one that is judged has the lowest id of them."""
    tiny = Tiny(tmp_path / "tied")
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
    return tiny


TIED = {"dog": "dog ticket", "harbour": "southern harbour"}


def ties(tiny: Tiny, retriever: str, top_k: int) -> dict[str, int | None]:
    table = tiny.pipeline().artifact(metrics_key(retriever, top_k)).table()
    rows = table.select(["query_id", "ties_at_cut"]).to_pylist()
    return {row["query_id"]: row["ties_at_cut"] for row in rows}


def n_tied(tiny: Tiny, retriever: str) -> list[int | None]:
    counts: list[int | None] = (
        tiny.pipeline().artifact(summary_key(retriever)).table()["n_tied"].to_pylist()
    )
    return counts


def test_every_cell_knows_its_ties(tied: Tiny) -> None:
    tied.run()
    assert ties(tied, "bm25", 1) == {"dog": 2, "harbour": 0}
    assert ties(tied, "bm25", 3) == {"dog": 0, "harbour": 0}
    assert n_tied(tied, "bm25") == [1, 0]
    assert n_tied(tied, "fused") == [0, 0], "the inputs agree on the ranks"


def test_an_imported_run_that_ends_at_the_cut_does_not(tied: Tiny) -> None:
    tied.run()
    assert ties(tied, "given", 1) == {"dog": None, "harbour": None}
    assert ties(tied, "given", 3) == {"dog": 0, "harbour": 0}
    assert n_tied(tied, "given") == [None, 0]


def test_a_tie_that_comes_below_an_unchanged_run_changes_metrics(tied: Tiny) -> None:
    tied.run()
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
    result = evaluated(tied.pipeline())
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
    assert "bm25: equal scores on both sides of the cut in 1 of 2 queries" in text


def test_bounds_without_the_stored_ranking(tied: Tiny) -> None:
    """From the deepest run that was cut from it, which is all that is left."""
    result = evaluated(tied.pipeline())
    (whole,) = [r for r in tie_rows(result, ["bm25"], 1) if r["metric"] == "mrr@1"]
    for file in (result.root.parent / "objects" / "rankings").rglob("*.parquet"):
        file.unlink()
    (row,) = [r for r in tie_rows(result, ["bm25"], 1) if r["metric"] == "mrr@1"]
    assert row == whole


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
    result: EvaluationResult = evaluated(tied.pipeline())
    with pytest.raises(NotEvaluated, match=r"has no cell at top_k 1 .* one of hit_rate, mrr"):
        tie_rows(result, ["bm25"], 1)


def attributed(tiny: Tiny, retriever: str) -> dict[str, dict[str, Any]]:
    """Query and evidence -> the row of one retriever."""
    pipeline = tiny.pipeline()
    table = pipeline.artifact(attributions_key(pipeline.experiment, retriever)).table()
    return {f"{row['query_id']} {row['evidence_id']}": row for row in table.to_pylist()}


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


def test_what_a_fusion_moves_down_is_lost_in_it(fresh: Tiny) -> None:
    """bm25 alone has the evidence first; a second retriever that misses it outvotes it."""
    fresh.config |= {"metrics": ["recall"], "primary": "recall@1", "top_k": [1, 5]}
    fresh.write_document("noise.md", "southern southern southern southern\n")
    fresh.configure("odd", type="bm25", chunking="parts", analyzer="standard", k1=100.0, b=0.0)
    fresh.configure("mixed", type="rrf", inputs=["bm25", "odd", "odder"], candidates=100)
    fresh.configure("odder", type="bm25", chunking="parts", analyzer="standard", k1=100.0, b=0.0)
    fresh.write_rows(
        "queries.jsonl",
        [
            {**row, "text": "southern harbour wind"} if row["query_id"] == "q2" else row
            for row in QUERIES
        ],
    )
    fresh.run()
    row = attributed(fresh, "mixed")["q2 harbours.md#51-122"]
    assert row["input_ranks"][0] == 1
    assert row["input_ranks"][1] == row["input_ranks"][2] > 1
    assert (row["lost_at"], row["rank"]) == ("lost_in_fusion", 2)
    assert attributed(fresh, "odd")["q2 harbours.md#51-122"]["lost_at"] == "cut_at_k"


def test_an_evidence_in_no_chunk(fresh: Tiny) -> None:
    """The white space between small chunks is trimmed; this evidence is little else."""
    fresh.config["chunking"]["parts"] = {
        "strategy": "recursive",
        "max_characters": 70,
        "overlap": 0,
    }
    fresh.write_config()
    first = "The old quay in the north is closed for repairs until the spring."
    second = "The new crane in the south is painted yellow and lifts ten tonnes."
    text = first + "\n" * 60 + second
    fresh.write_document("quay.md", text)
    quote = text[len(first) - 7 : len(first) + 67]
    row = {"query_id": "q1", "doc_id": "quay.md", "quote": quote}
    fresh.write_rows("judgments.jsonl", [row])
    fresh.run()
    (of_parts,) = attributed(fresh, "okapi").values()
    (of_whole,) = attributed(fresh, "bm25-whole").values()
    assert (of_parts["lost_at"], of_parts["n_relevant_units"]) == ("no_chunk", 0)
    assert of_whole["n_relevant_units"] == 1
