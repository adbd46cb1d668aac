"""Every type that indexes texts ranks chunks by the best of their texts, as if each were alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.retrieval.base import BaseRetriever
from rag_assets.retrieval.registry import OWN_TYPES
from tests.retrieval.test_contract import absent
from tests.retrieval.test_contract import retrievers as retrievers
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

KINDS = [
    kind
    for kind, one in OWN_TYPES.items()
    if issubclass(one, BaseRetriever) and kind not in ("vectors", "qdrant")
]
"""Types that are given texts."""

QUESTIONS = {
    name: [f"what is said of {name.partition('.')[0]}", text.splitlines()[-1]]
    for name, text in DOCUMENTS.items()
}


@pytest.fixture(scope="module")
def used(retrievers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {kind: retrievers[kind] for kind in KINDS if not absent(kind)}


def evaluated(root: Path, retrievers: Mapping[str, Any], documents: dict[str, str]) -> Tiny:
    tiny = Tiny(root)
    tiny.config["dataset"] = {"format": "jsonl"}
    tiny.config["retrievers"] = {
        name: {**options, "chunking": "whole"} for name, options in retrievers.items()
    }
    tiny.config |= {"top_k": [2, 50], "primary": "ndcg@2", "baseline": next(iter(retrievers))}
    tiny.config["measurements"] = {"latency_sample": 0}
    tiny.folder.mkdir(parents=True)
    rows = [{"doc_id": name, "text": text} for name, text in documents.items()]
    tiny.write_rows("documents.jsonl", rows)
    tiny.write_rows("queries.jsonl", QUERIES)
    return tiny


@pytest.fixture(scope="module")
def pair(
    used: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tiny, Tiny]:
    """The documents with questions, and every text of them as a document of its own."""
    root = tmp_path_factory.mktemp("texts")
    several = evaluated(root / "several", used, DOCUMENTS)
    option = {"kind": "questions", "file": "questions.jsonl"}
    several.config["chunking"] = {"whole": {"strategy": "none", "index_texts": ["text", option]}}
    rows = [
        {"document_id": name, "start": 0, "end": len(DOCUMENTS[name]), "texts": texts}
        for name, texts in QUESTIONS.items()
    ]
    several.write_rows("questions.jsonl", rows)
    texts = {f"{name}~": text for name, text in DOCUMENTS.items()}
    for name, own in QUESTIONS.items():
        texts |= {f"{name}~{number}": text for number, text in enumerate(own)}
    alone = evaluated(root / "alone", used, texts)
    alone.config["chunking"] = {"whole": {"strategy": "none"}}
    for tiny in (several, alone):
        tiny.write_config()
        tiny.run()
    return several, alone


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_of_all_texts_at_every_depth(pair: tuple[Tiny, Tiny], kind: str) -> None:
    if absent(kind):
        pytest.skip(f"needs pip install 'rag-assets[{kind.replace('_', '-')}]'")
    several, alone = pair
    found, single = several.ranked(kind, 50, "document_id"), alone.ranked(kind, 50, "document_id")
    for query_id, rows in single.items():
        best: dict[str, float] = defaultdict(lambda: float("-inf"))
        for name, score in rows:
            document = name.partition("~")[0]
            best[document] = max(best[document], score)
        assert dict(found[query_id]) == pytest.approx(dict(best), abs=1e-6)
        values = [score for _, score in found[query_id]]
        assert values == sorted(values, reverse=True)
        assert several.ranked(kind, 2, "document_id")[query_id] == found[query_id][:2]
