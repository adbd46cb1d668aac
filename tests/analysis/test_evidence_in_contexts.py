"""What answers are worth given complete, partial and no evidence, by hand from the tables."""

from __future__ import annotations

from typing import Any

import pytest

import rag_assets
from rag_assets.answers.stage import answer_metrics_key
from rag_assets.answers.waterfall_stage import waterfall_key
from rag_assets.errors import NotEvaluated
from tests.answers.answering import with_answers
from tests.tiny_experiment import Tiny

ANSWERERS: dict[str, Any] = {
    "read": {"generator": "copied", "retriever": "bm25", "top_k": [3, 5]},
    "short": {"generator": "copied", "retriever": "bm25", "top_k": [5], "budget": 12},
    "gold": {"generator": "copied", "context": "gold", "chunking": "parts"},
    "none": {"generator": "copied", "context": "none"},
    "alone": {"generator": "predicted"},
}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("evidence")).write()
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    generators = {"copied": {"type": "extractive"}, "predicted": {"type": "file"}}
    generators["predicted"]["path"] = "predictions.json"
    with_answers(tiny, generators=generators, answers=ANSWERERS).run()
    tiny.snapshot()
    return tiny


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def test_means_and_pairs_are_those_of_the_tables(evaluated: Tiny) -> None:
    """The same numbers by plain loops over questions."""
    result = rag_assets.leaderboard(evaluated.folder, store=evaluated.settings.store)
    rows = {(row["answerer"], row["metric"]): row for row in result.evidence.to_pylist()}
    keys = ("read@3", "read@5", "short@5", "gold@-", "none@-")
    # Of answers in a file alone nobody knows what was read.
    assert list(dict.fromkeys(key for key, _ in rows)) == list(keys)
    held: dict[str, dict[str, float]] = {}
    for key in keys:
        classes = evaluated.rows(waterfall_key(key))
        known = [row for row in classes if row["n_evidence"] and row["n_in_context"] is not None]
        held[key] = {row["query_id"]: row["n_in_context"] / row["n_evidence"] for row in known}
    assert {share for shares in held.values() for share in shares.values()} == {0, 0.5, 1}
    for (key, metric), row in rows.items():
        values = {
            name: {one["query_id"]: one[metric] for one in evaluated.rows(answer_metrics_key(name))}
            for name in keys
        }
        groups: dict[str, list[float]] = {"complete": [], "partial": [], "none": []}
        gains = []
        for query_id, share in held[key].items():
            value = values[key][query_id]
            if value is None:
                continue
            groups["complete" if share == 1 else "partial" if share else "none"].append(value)
            others = [
                values[name][query_id]
                for name in keys
                if held[name].get(query_id) == 1 and values[name][query_id] is not None
            ]
            if share < 1 and others:
                gains.append(sum(others) / len(others) - value)
        for group, given in groups.items():
            assert row[f"n_{group}"] == len(given)
            assert row[group] == pytest.approx(mean(given))
        assert row["n_pairs"] == len(gains)
        assert row["gained"] == pytest.approx(mean(gains))
        if len(gains) > 1:
            assert row["low"] <= row["gained"] <= row["high"]
    # No evidence at all: six questions, each of which the gold context answers.
    bare = rows["none@-", "answer_f1"]
    assert (bare["n_complete"], bare["n_partial"], bare["n_none"], bare["n_pairs"]) == (0, 0, 6, 6)
    assert (bare["none"], bare["complete"]) == (0, None)
    assert bare["gained"] > 0 == rows["gold@-", "answer_f1"]["n_pairs"]


def test_nothing_is_told_without_labels(evaluated: Tiny, tmp_path: Any) -> None:
    tiny = evaluated.copy_to(tmp_path / "copy")
    (tiny.folder / "judgments.jsonl").unlink()
    for name in ("primary", "baseline"):
        tiny.config.pop(name, None)
    tiny.config["answers"] = {"read": ANSWERERS["read"]}
    tiny.write_config()
    tiny.run()
    tiny.snapshot()
    result = rag_assets.leaderboard(tiny.folder, store=tiny.settings.store)
    with pytest.raises(NotEvaluated, match="labelled evidence"):
        _ = result.evidence
