"""Retrievers with ``recency``: all scores of a plain ranking, weighted by hand, and cut."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError, DataError
from rag_assets.experiment import load_experiment
from rag_assets.retrieval.ask import ask
from rag_assets.retrieval.search_steps_stage import RECENCY_FACTORS_KEY
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny, is_done, planned

NEWEST = date(2026, 1, 31)
RECENCY = {"half_life": "90d", "weight": 0.9, "now": "newest"}
BM25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}
DEEP = 100


def day(name: str) -> date:
    """Every document is a hundred days older than the next one; the last is the newest."""
    return NEWEST - timedelta(days=100 * (len(DOCUMENTS) - 1 - list(DOCUMENTS).index(name)))


def factor(name: str, recency: dict[str, Any] = RECENCY) -> float:
    fresh = 0.5 ** ((NEWEST - day(name)).days / 90)
    return float(1 - recency["weight"] + recency["weight"] * fresh)


@pytest.fixture
def dated(tmp_path: Path) -> Tiny:
    tiny = Tiny(tmp_path / "dated")
    parts = {"strategy": "recursive", "max_characters": 50, "overlap": 0}
    tiny.config["chunking"] = {"parts": parts}
    model = save_static_model(tmp_path / "model", list(DOCUMENTS.values()))
    # Its scores are below 0.
    far = {"type": "embedding", "chunking": "parts", "model": str(model), "similarity": "euclidean"}
    variants = {"query_set": "more", "variants": "sum"}
    tiny.config["query_sets"] = {"more": {"strategy": "file", "path": "more.jsonl"}}
    fused = {"type": "rrf", "inputs": ["bm25", "far"]}
    tiny.config["retrievers"] = {
        "bm25": {**BM25},
        "bm25-fresh": {**BM25, "recency": RECENCY},
        "far": far,
        "far-fresh": {**far, "recency": RECENCY},
        "more": {**BM25, **variants},
        "more-fresh": {**BM25, **variants, "recency": RECENCY},
        "fused": fused,
        "fused-fresh": {**fused, "recency": RECENCY},
    }
    tiny.config |= {"top_k": [2, DEEP], "metrics": ["ndcg"], "primary": "ndcg@2"}
    tiny.write()
    for name, text in DOCUMENTS.items():
        tiny.write_document(name, f"---\ndate: {day(name)}\n---\n{text}")
    rows = [{"query_id": q["query_id"], "variants": ["ferry engine"]} for q in QUERIES]
    tiny.write_rows("more.jsonl", rows)
    return tiny


def by_hand(rows: list[tuple[str, float]]) -> list[tuple[str, float]]:
    each = [(unit, factor(unit.partition("#")[0]), score) for unit, score in rows]
    scores = [(unit, score * f if score >= 0 else score / f) for unit, f, score in each]
    return sorted(scores, key=lambda one: (one[1], one[0].encode()), reverse=True)


def test_every_score_is_weighted_before_the_cut(dated: Tiny) -> None:
    dated.run()
    moved = set()
    for name in ("bm25", "far", "more", "fused"):
        everything = dated.ranked(name, DEEP)
        for top_k in (2, DEEP):
            for query_id, rows in dated.ranked(f"{name}-fresh", top_k).items():
                expected = by_hand(everything[query_id])[:top_k]
                assert [unit for unit, _ in rows] == [unit for unit, _ in expected]
                scores = [score for _, score in rows]
                assert scores == pytest.approx([score for _, score in expected])
                if rows and rows[0][0] != everything[query_id][0][0]:
                    moved.add(name)
    assert moved == {"bm25", "far", "more", "fused"}
    assert min(score for rows in dated.ranked("far", DEEP).values() for _, score in rows) < 0
    table = dated.pipeline().artifact(RECENCY_FACTORS_KEY).table()
    assert table.num_rows == len(DOCUMENTS)  # equal options once
    assert max(table["age"].to_pylist()) == 100 * (len(DOCUMENTS) - 1)


def test_a_question_that_stands_in_no_file(dated: Tiny) -> None:
    dated.config["retrievers"] = {"bm25": {**BM25}, "fresh": {**BM25, "recency": RECENCY}}
    dated.write_config()
    question = "when does the last ferry leave in winter"
    plain, fresh = (
        [(hit.document_id, hit.score) for hit in one.hits]
        for one in ask(dated.pipeline(), question, top_k=DEEP)
    )
    expected = {name: score * factor(name) for name, score in plain}
    assert {name for name, _ in fresh} == expected.keys()
    assert [score for _, score in fresh] == sorted((s for _, s in fresh), reverse=True)
    assert max(fresh, key=lambda one: one[1])[1] == pytest.approx(
        max(score * factor(name) for name, score in plain)
    )


def test_what_is_searched_again(dated: Tiny) -> None:
    """Exactly what reads a date that changed, and plans say so; the rest stays as it was."""
    dated.config["retrievers"] = {"bm25": {**BM25}, "okapi": {**BM25, "variant": "okapi"}}
    dated.write_config()
    dated.run()
    dated.configure("okapi", recency=RECENCY)
    dated.configure("pages", **BM25, recency={"field": "page", "half_life": "2y"})
    dated.replace("crew.md", "date:", "page: 2020\ndate:")
    assert searched(dated) == {"okapi", "pages"}
    dated.replace("crew.md", "page: 2020", "page: 2021\nauthor: Ann")
    # The only page is the newest one, whatever it is: no factor changed.
    assert searched(dated) == set()
    dated.replace("fares.md", "date:", "page: 2000\ndate:")
    assert searched(dated) == {"pages"}
    dated.replace("crew.md", f"date: {day('crew.md')}", "date: 2020-01-01")
    assert searched(dated) == {"okapi"}
    dated.configure("okapi", recency={**RECENCY, "weight": 0.5})
    assert searched(dated) == {"okapi"}
    dated.configure("filtered", **BM25, filters=True)
    assert searched(dated) == {"filtered"}
    dated.configure("fused", type="rrf", inputs=["bm25", "okapi"])
    dated.configure("fresh", type="rrf", inputs=["bm25", "okapi"], recency=RECENCY)
    assert searched(dated) == {"fused", "fresh"}
    dated.configure("fresh", recency={**RECENCY, "weight": 0.4})
    assert searched(dated) == {"fresh"}


def searched(tiny: Tiny) -> set[str]:
    plan, computed = planned(tiny), tiny.run()
    assert is_done(plan, computed)
    assert not {name for name in computed if "_index" in name}
    return {name.split("/")[1] for name in computed if "_runs/" in name}


def test_documents_without_a_date_count_as_the_oldest_and_are_named(dated: Tiny) -> None:
    dated.config["retrievers"] = {"bm25": {**BM25, "recency": RECENCY}}
    dated.replace("crew.md", f"date: {day('crew.md')}\n", "")
    dated.replace("lost.md", f"date: {day('lost.md')}", "date: 31.1.2026")
    dated.run()
    assert dated.facts(RECENCY_FACTORS_KEY)["notes"] == [
        "2 documents have no date of ISO 8601 under `date` and count as the oldest document: "
        "crew.md, lost.md ('31.1.2026')"
    ]
    rows = {row["document_id"]: row for row in dated.rows(RECENCY_FACTORS_KEY)}
    assert rows["fares.md"]["date"] == f"{day('fares.md')}T00:00:00+00:00"
    for name in ("crew.md", "lost.md"):
        assert rows[name]["date"] is None
        assert rows[name]["factor"] == rows["fares.md"]["factor"] < rows["timetable.md"]["factor"]
        assert rows[name]["age"] == rows["fares.md"]["age"]


def test_one_line_for_what_is_wrong(dated: Tiny) -> None:
    dated.configure("bm25-fresh", recency={**RECENCY, "field": "dat"})
    with pytest.raises(DataError) as caught:
        dated.run()
    assert str(caught.value) == (
        f"{dated.folder / 'experiment.yaml'}: `retrievers.bm25-fresh.recency.field`: no document "
        "has the field 'dat' (did you mean 'date'?); allowed: date"
    )
    for name in DOCUMENTS:
        dated.replace(name, f"date: {day(name)}", "date: in winter")
    dated.configure("bm25-fresh", recency=RECENCY)
    with pytest.raises(DataError, match=r"crew.md has 'in winter'"):
        dated.run()
    dated.configure("wrong", type="rrf", inputs=["bm25", "far"], weights="tuned", recency=RECENCY)
    problem = r"`retrievers\.wrong.*weights cannot be tuned with recency; give numbers"
    with pytest.raises(ConfigError, match=problem):
        load_experiment(dated.folder)
