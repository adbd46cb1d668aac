from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.artifacts import Artifact, ArtifactKey
from tests.all_measurements import all_measurements
from tests.tiny_experiment import Tiny, matching

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


def test_rankings_are_as_deep_as_their_deepest_reader(tiny: Tiny) -> None:
    """Ten ranks below the deepest cut, where ties are looked for, or as deep as a fusion reads."""
    depths = {name: set(rankings(tiny, name)) for name in ("bm25", "bm25-whole", "okapi", "hybrid")}
    assert depths == {"bm25": {100}, "bm25-whole": {100}, "okapi": {15}, "hybrid": {15}}


def test_a_fusion_of_lists_cut_at_top_k_has_a_ranking_a_cell(tiny: Tiny) -> None:
    assert set(rankings(tiny, "shallow")) == {11, 13, 15}


def test_candidates_below_every_top_k_count(tiny: Tiny) -> None:
    """What an input ranks below the cut adds to the score of what the other ranks above it."""
    shallow = by_query(cell(tiny.pipeline(), "shallow", 3).table())
    tiny.configure("shallow", candidates=100)
    assert matching(tiny.pipeline(), "fused_runs/shallow/*") <= tiny.run()
    deep = by_query(cell(tiny.pipeline(), "shallow", 3).table())
    assert any(
        [row["score"] for row in deep[query]] != [row["score"] for row in shallow[query]]
        for query in deep
    )


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


def test_a_larger_top_k_makes_a_deeper_ranking_and_leaves_smaller_cells(tiny: Tiny) -> None:
    before = {k: cell(tiny.pipeline(), "okapi", k).file.read_bytes() for k in (1, 3, 5)}
    tiny.config["top_k"] = [1, 3, 5, 8]
    tiny.write_config()
    tiny.run()
    pipeline = tiny.pipeline()
    assert set(rankings(tiny, "okapi")) == {15, 18}
    assert {k: cell(pipeline, "okapi", k).file.read_bytes() for k in (1, 3, 5)} == before
    shallow, deep = (by_query(cell(pipeline, "okapi", k).table()) for k in (5, 8))
    assert shallow == {query: rows[:5] for query, rows in deep.items()}
    assert max(len(rows) for rows in deep.values()) > 5


def test_a_new_top_k_is_cut_from_a_deeper_ranking_without_a_search(tiny: Tiny) -> None:
    searches = {
        m["fingerprint"]: m
        for m in all_measurements(tiny.pipeline().measurements)
        if m["what"] == "search"
    }
    tiny.config["top_k"] = [1, 2, 3, 5]
    tiny.write_config()
    assert matching(tiny.pipeline(), "lexical_runs/*/2") <= tiny.run()
    after = {
        m["fingerprint"]: m
        for m in all_measurements(tiny.pipeline().measurements)
        if m["what"] == "search"
    }
    lexical = {
        cell(tiny.pipeline(), name, 2).manifest.facts["ranking"]
        for name in ("bm25", "bm25-whole", "okapi")
    }
    assert lexical <= set(searches)
    assert {name: after[name] for name in searches} == searches


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
