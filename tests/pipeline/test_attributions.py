from __future__ import annotations

from typing import Any

import pytest

from rag_assets.evaluation.attributions_stage import attributions_key, places
from rag_assets.evaluation.metrics_stage import metrics_key
from tests.tiny_experiment import QUERIES, Tiny


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
