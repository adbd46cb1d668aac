"""Weights that are chosen on dev: which, from what, and what is computed again because of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import ConfigError, DataError
from rag_assets.experiment import load_experiment
from rag_assets.retrieval.fusion.stage import chosen_weights, tuning_key
from rag_assets.retrieval.runs_stage import run_key
from tests.tiny_experiment import QUERIES, Tiny, matching

RELEVANT = {"q1": "fares", "q2": "harbours", "q3": "engines", "q4": "crew", "q5": "fares"}
FOLDS = {"q1": "dev", "q2": "dev", "q3": "test", "q4": "test", "q5": "test"}


def write_labels(tiny: Tiny, relevant: dict[str, str], **grades: int) -> None:
    rows = [
        {"query_id": q, "doc_id": f"{d}.md", "relevance": grades.get(q, 1)}
        for q, d in relevant.items()
    ]
    tiny.write_rows("judgments.jsonl", rows)


def write_run(tiny: Tiny, name: str, good: str) -> None:
    """Write a run that finds the relevant document first in one fold, and third in the other."""
    lines = []
    for query_id, document in RELEVANT.items():
        items = ["lost.md", "timetable.md"]
        items.insert(0 if FOLDS[query_id] == good else 2, f"{document}.md")
        lines += [f"{query_id} Q0 {item} {n} {9 - n} x" for n, item in enumerate(items, 1)]
    (tiny.folder / name).write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Two runs, one good on dev and one on test, and their fusion with tuned weights."""
    made = Tiny(tmp_path_factory.mktemp("tuning") / "master")
    made.config |= {
        "dataset": {"format": "markdown", "judge": "document"},
        "chunking": {"whole": {"strategy": "none"}},
        "split": {"field": "fold"},
        "top_k": [1, 3],
        "primary": "ndcg@3",
        "baseline": "good-on-dev",
        "retrievers": {
            "good-on-dev": {"type": "run_file", "path": "dev.trec"},
            "good-on-test": {"type": "run_file", "path": "test.trec"},
            "tuned": {
                "type": "rrf",
                "inputs": ["good-on-dev", "good-on-test"],
                "k": 1,
                "weights": "tuned",
            },
        },
    }
    made.write()
    asked = [q for q in QUERIES if q["query_id"] in FOLDS]
    made.write_rows("queries.jsonl", [{**q, "fold": FOLDS[q["query_id"]]} for q in asked])
    write_labels(made, RELEVANT)
    write_run(made, "dev.trec", "dev")
    write_run(made, "test.trec", "test")
    made.run()
    return made


@pytest.fixture
def tiny(master: Tiny, tmp_path: Path) -> Tiny:
    """A copy in which everything is up to date."""
    return master.copy_to(tmp_path / "tiny")


def weights(tiny: Tiny) -> tuple[float, ...]:
    pipeline = tiny.pipeline()
    return chosen_weights(pipeline.artifact(tuning_key(pipeline.experiment, "tuned")))


def tuning(tiny: Tiny) -> list[dict[str, Any]]:
    return tiny.rows(tuning_key(tiny.pipeline().experiment, "tuned"))


def test_weights_are_those_that_are_best_on_dev(tiny: Tiny) -> None:
    tiny.configure("fixed", type="rrf", inputs=["good-on-dev", "good-on-test"], k=1)
    tiny.configure("fixed", weights=[0.7, 0.3])
    tiny.run()
    # The relevant document leads as soon as w / 2 + (1 - w) / 4 > w / 3 + (1 - w) / 2: w > 0.6.
    # Of all that lead, 0.7 is the nearest to equal weights.
    assert weights(tiny) == (0.7, 0.3)
    rows = tuning(tiny)
    assert [row["weights"][0] for row in rows] == [0.5, 0, 0.1, 0.2, 0.3, 0.4, *range_from(0.6)]
    assert [row["number"] for row in rows if row["chosen"]] == [7]
    assert {row["metric"] for row in rows} == {"ndcg@3"}
    assert rows[7]["value"] == 1.0 > rows[0]["value"]
    # 0.5 finds it second, 0 third: 1 / log2(3) and 1 / log2(4).
    assert [rows[n]["value"] for n in (0, 1)] == pytest.approx([0.6309297535714575, 0.5])
    pipeline = tiny.pipeline()
    cells = [pipeline.artifact(run_key(pipeline.experiment, n, 3)) for n in ("tuned", "fixed")]
    assert cells[0].table().equals(cells[1].table())


def range_from(first: float) -> list[float]:
    return [round(first + step / 10, 1) for step in range(5)]


def test_a_test_label_goes_no_further_than_the_dev_judgments(tiny: Tiny) -> None:
    write_labels(tiny, {**RELEVANT, "q3": "lost", "q4": "timetable", "q5": "lost"})
    computed = tiny.run()
    assert computed >= matching(
        tiny.pipeline(), "qrels", "relevant_units/*", "dev_relevant_units/*"
    )
    assert not computed & matching(tiny.pipeline(), "tuning/*", "fused_runs/*")
    assert weights(tiny) == (0.7, 0.3)


def test_a_dev_label_that_changes_no_choice_changes_no_run(tiny: Tiny) -> None:
    write_labels(tiny, RELEVANT, q1=2)
    computed = tiny.run()
    assert computed >= matching(tiny.pipeline(), "tuning/*", "metrics/tuned/*")
    assert not computed & matching(tiny.pipeline(), "fused_runs/*")
    pipeline = tiny.pipeline()
    key = tuning_key(pipeline.experiment, "tuned")
    version = pipeline.data_version(pipeline.artifact(key), key)
    write_labels(tiny, RELEVANT)
    before = tiny.pipeline()
    assert version == before.data_version(before.artifact(key), key)


def test_a_query_counts_by_its_weight(tiny: Tiny) -> None:
    write_labels(tiny, {**RELEVANT, "q2": "lost"})
    rows = [
        {**q, "fold": FOLDS[q["query_id"]], "asked": 1 if q["query_id"] != "q2" else 50}
        for q in QUERIES
        if q["query_id"] in FOLDS
    ]
    tiny.write_rows("queries.jsonl", rows)
    tiny.config["weight"] = "asked"
    tiny.write_config()
    tiny.run()
    assert weights(tiny)[0] <= 0.5
    found = {row["weights"][0]: row["value"] for row in tuning(tiny)}
    assert found[1.0] == pytest.approx((1 + 50 * 0.6309297535714575) / 51)


def test_a_query_on_which_an_input_failed_is_in_no_mean(tiny: Tiny) -> None:
    lists = [
        {"query_id": q, "retrieved_ids": [f"{document}.md", "lost.md"]}
        for q, document in RELEVANT.items()
    ]
    lists[0] = {"query_id": "q1", "error": "the server did not answer"}
    tiny.write_rows("dev.jsonl", lists)
    tiny.configure("good-on-dev", path="dev.jsonl")
    tiny.run()
    pipeline = tiny.pipeline()
    assert pipeline.artifact(tuning_key(pipeline.experiment, "tuned")).manifest.facts["n_dev"] == 1
    assert {row["weights"][0]: row["value"] for row in tuning(tiny)}[1.0] == 1.0


def test_lists_that_are_cut_at_top_k_are_tuned_at_the_cut_off_of_the_metric(tiny: Tiny) -> None:
    tiny.configure("tuned", candidates="top_k", tune={"metric": "mrr@1", "grid": 3})
    tiny.run()
    found = {row["weights"][0]: row["value"] for row in tuning(tiny)}
    # Of two lists of one item each, the one with the larger weight gives the first; `lost.md`
    # has a larger id than `fares.md` and `harbours.md`, so it wins a tie.
    assert found == {0.5: 0.0, 0.0: 0.0, 1.0: 1.0}
    assert weights(tiny) == (1.0, 0.0)


def test_a_dev_split_without_a_relevant_document_is_an_error(tiny: Tiny) -> None:
    write_labels(tiny, RELEVANT, q1=0, q2=0)
    with pytest.raises(DataError, match="no query of the dev split has a relevant judgment"):
        tiny.run()


def test_without_labels_nothing_can_be_chosen(tiny: Tiny) -> None:
    (tiny.folder / "judgments.jsonl").unlink()
    with pytest.raises(
        ConfigError, match=r"`retrievers\.tuned\.weights`: tuned weights need label"
    ):
        load_experiment(tiny.folder)
