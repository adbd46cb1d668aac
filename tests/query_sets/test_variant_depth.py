"""Fused variants do not depend on how deep anybody else reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.experiment.load import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.store.settings import StoreSettings
from tests.tiny_experiment import materialize

WORDS = [f"word{number}" for number in range(30)]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """300 documents and five questions with three variants each, so that many units are tied."""
    chance = random.Random(3)
    folder = tmp_path / "words"
    folder.mkdir()
    documents = [
        {"doc_id": f"d{number:03}", "text": " ".join(chance.choices(WORDS, k=12))}
        for number in range(300)
    ]
    queries = [
        {"query_id": f"q{number}", "text": " ".join(chance.sample(WORDS, 3))} for number in range(5)
    ]
    variants = [
        {
            "query_id": query["query_id"],
            "variants": [" ".join(chance.sample(WORDS, 3)) for _ in range(3)],
        }
        for query in queries
    ]
    (folder / "documents.jsonl").write_text(lines(documents))
    (folder / "queries.jsonl").write_text(lines(queries))
    (folder / "variants.jsonl").write_text(lines(variants))
    return folder


def first_three(folder: Path, name: str, top_k: list[int], **options: Any) -> list[tuple[str, str]]:
    config = {
        "name": name,
        "chunking": {"whole": {"strategy": "none"}},
        "query_sets": {"said": {"strategy": "file", "path": "variants.jsonl"}},
        "retrievers": {"bm25": {"type": "bm25", "query_set": "said", **options}},
        "top_k": top_k,
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(config))
    experiment = load_experiment(file)
    pipeline = Pipeline(experiment, StoreSettings.resolve(folder.parent / "store"))
    materialize(pipeline)
    table = pipeline.artifact(run_key(experiment, "bm25", 3)).table()
    return list(zip(table["query_id"].to_pylist(), table["unit_id"].to_pylist(), strict=True))


@pytest.mark.parametrize("variants", ["rrf", "sum"])
def test_a_deeper_cell_changes_nothing_at_the_top(folder: Path, variants: str) -> None:
    alone = first_three(folder, "alone", [3], variants=variants)
    assert first_three(folder, "deep", [3, 200], variants=variants) == alone
    few = first_three(folder, "few", [3], variants=variants, variant_candidates=2)
    assert few != alone
