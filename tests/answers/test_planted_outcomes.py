"""Faults are planted in the files of an experiment; its stages put every question in its class."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rag_assets.answers.waterfall_stage import waterfall_key
from tests.tiny_experiment import CONFIG, Tiny

K = 3
GOLD = "forty crowns"
ANSWERS = {"right": "Forty crowns.", "wrong": "ten euros", "refused": "I do not know."}
ANSWERERS = ("single", "budgeted", "fused")
LONG = "long"
"""The first document of every ranking: its text alone is the budget."""


class Planted(NamedTuple):
    """One question: what is labelled, how it is answered, and where its evidence is ranked."""

    query_id: str
    labels: str
    answer: str | None
    place: str

    @property
    def document(self) -> str:
        return f"of-{self.query_id}"

    def outcome(self, answerer: str) -> str:
        if self.answer is None:
            return "failed"
        if self.labels == "none":
            return "unanswerable_" + ("refused" if self.answer == "refused" else "answered")
        if self.labels in ("evidence", "answer"):
            return "answer_not_labelled" if self.labels == "evidence" else "evidence_not_labelled"
        lost = self.lost(answerer)
        if self.answer == "right":
            return "right_without_evidence" if lost else "right_with_evidence"
        return f"{self.answer}_{lost or 'with_evidence'}"

    def lost(self, answerer: str) -> str | None:
        if self.place == "lost_in_fusion":
            return self.place if answerer == "fused" else dropped(answerer)
        if self.place == "found":
            return dropped(answerer)
        return self.place

    def rankings(self) -> dict[str, list[str]]:
        """Return what each of two retrievers ranks; the first is the one that is read alone."""
        others = [f"other-{number}" for number in range(4)]
        own = {
            "found": ([LONG, self.document, *others[:2]], [LONG, self.document, *others[:2]]),
            "cut_at_k": ([LONG, *others[:3], self.document], [LONG, *others[:3], self.document]),
            "lost_in_fusion": ([LONG, others[0], self.document, others[1]], [LONG, *others[:3]]),
        }
        a, b = own.get(self.place, ([LONG, *others], [LONG, *others]))
        return {"a": a, "b": b}


def dropped(answerer: str) -> str | None:
    return "dropped_from_context" if answerer == "budgeted" else None


def planted() -> list[Planted]:
    """Return questions of all kinds, each kind with a place and an answer of every kind."""
    places = ("found", "below_candidates", "cut_at_k", "lost_in_fusion", "not_in_corpus")
    kinds: list[tuple[str, str | None, str]] = [
        ("both", answer, place) for answer in ANSWERS for place in places
    ]
    kinds += [(labels, answer, "found") for labels in ("none", "answer") for answer in ANSWERS]
    kinds += [("evidence", "wrong", "found"), ("both", None, "found"), ("none", None, "found")]
    return [Planted(f"q{number:03d}", *kind) for number, kind in enumerate(kinds)]


def write_run(file: Path, name: str, questions: Sequence[Planted]) -> None:
    lines = [
        f"{one.query_id} Q0 {document} {rank} {-rank} {name}\n"
        for one in questions
        for rank, document in enumerate(one.rankings()[name], start=1)
    ]
    file.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    tiny = Tiny(tmp_path_factory.mktemp("planted"))
    tiny.folder.mkdir()
    questions = planted()
    texts = {LONG: " ".join(["harbour"] * 40)}
    texts |= {f"other-{number}": f"nothing about {number}" for number in range(4)}
    kept = [one for one in questions if one.place != "not_in_corpus"]
    texts |= {one.document: f"a ticket of {one.query_id} is forty crowns" for one in kept}
    tiny.write_rows("documents.jsonl", [{"id": name, "text": text} for name, text in texts.items()])
    rows: list[dict[str, Any]] = [
        {"query_id": one.query_id, "text": f"what is a ticket of {one.query_id}?",
         "answers": [GOLD] if one.labels in ("both", "answer") else [],
         "tags": ["unanswerable"] if one.labels == "none" else []}
        for one in questions
    ]  # fmt: skip
    tiny.write_rows("queries.jsonl", rows)
    labelled = [one for one in questions if one.labels in ("both", "evidence")]
    labels = [{"query_id": one.query_id, "doc_id": one.document} for one in labelled]
    tiny.write_rows("judgments.jsonl", labels)
    given = {one.query_id: ANSWERS[one.answer] for one in questions if one.answer}
    (tiny.folder / "predictions.json").write_text(json.dumps(given), encoding="utf-8")
    for name in ("a", "b"):
        write_run(tiny.folder / f"{name}.txt", name, questions)
    runs = {name: {"type": "run_file", "path": f"{name}.txt", "chunking": "whole"} for name in "ab"}
    tiny.config = {
        **CONFIG,
        "dataset": {"format": "jsonl", "judge": "document", "unknown_documents": "keep"},
        "chunking": {"whole": {"strategy": "none"}},
        "retrievers": {**runs, "fusion": {"type": "rrf", "inputs": ["a", "b"], "candidates": 10}},
        "top_k": [K, 10],
        "primary": f"ndcg@{K}",
        "baseline": "a",
        "generators": {"predicted": {"type": "file", "path": "predictions.json"}},
        "answers": {
            "single": {"generator": "predicted", "retriever": "a", "top_k": [K]},
            "budgeted": {"generator": "predicted", "retriever": "a", "top_k": [K], "budget": 41},
            "fused": {"generator": "predicted", "retriever": "fusion", "top_k": [K]},
        },
    }
    tiny.write_config()
    tiny.run()
    return tiny


@pytest.mark.parametrize("answerer", ANSWERERS)
def test_every_question_is_in_its_class(experiment: Tiny, answerer: str) -> None:
    table = experiment.pipeline().artifact(waterfall_key(f"{answerer}@{K}")).table()
    found = dict(zip(table["query_id"].to_pylist(), table["outcome"].to_pylist(), strict=True))
    assert found == {one.query_id: one.outcome(answerer) for one in planted()}


def test_all_classes_but_two_places_are_planted() -> None:
    """No chunk, and lost in reranking, are planted in tables alone."""
    classes = {one.outcome(answerer) for one in planted() for answerer in ANSWERERS}
    places = ("not_in_corpus", "below_candidates", "cut_at_k", "lost_in_fusion",
              "dropped_from_context", "with_evidence")  # fmt: skip
    assert classes == {
        "failed", "unanswerable_refused", "unanswerable_answered", "evidence_not_labelled",
        "answer_not_labelled", "right_with_evidence", "right_without_evidence",
        *(f"{answer}_{place}" for answer in ("wrong", "refused") for place in places),
    }  # fmt: skip
