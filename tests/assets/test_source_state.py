from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.assets.sensors import SourceState, source_state
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model
from tests.tiny_experiment import Tiny


@pytest.fixture
def rich(tmp_path: Path) -> Tiny:
    """Documents, queries, qrels; files of query variants and of answers, and a model of its own."""
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.config["query_sets"] = {"asked": {"strategy": "file", "path": "variants.jsonl"}}
    rows = [{"query_id": "q1", "text": "price of a dog's ticket"}]
    tiny.write_rows("variants.jsonl", rows)
    tiny.config["generators"] = {"given": {"type": "file", "path": "answers.jsonl"}}
    tiny.config["answers"] = {"elsewhere": {"generator": "given"}}
    tiny.write_rows("answers.jsonl", [{"query_id": "q1", "answer": "40 crowns"}])
    model = tmp_path / "model"
    shutil.copytree(resolve_model(DEFAULT_MODEL).path, model, copy_function=os.symlink)
    tiny.configure("minilm", type="embedding", chunking="parts", model=str(model))
    return tiny


def state(tiny: Tiny) -> SourceState:
    return source_state(tiny.pipeline())


def test_what_is_looked_at(rich: Tiny) -> None:
    found = state(rich)
    assert found.files == 13
    assert found.models == (rich.config["retrievers"]["minilm"]["model"],)
    assert state(rich) == found


def other_tokenizer(tiny: Tiny) -> None:
    file = Path(tiny.config["retrievers"]["minilm"]["model"]) / "tokenizer.json"
    text = file.read_text()
    file.unlink()
    file.write_text(json.dumps({**json.loads(text), "remark": 1}))


CHANGES: dict[str, Callable[[Tiny], object]] = {
    "document": lambda tiny: tiny.replace("fares.md", "40 crowns", "45 crowns"),
    "query": lambda tiny: tiny.replace("queries.jsonl", "a dog", "a cat"),
    "label": lambda tiny: tiny.replace("judgments.jsonl", '"relevance": 1', '"relevance": 2'),
    "new document": lambda tiny: tiny.write_document("new.md", "# New\n\nA line.\n"),
    "variant": lambda tiny: tiny.replace("variants.jsonl", "price", "cost"),
    "answer": lambda tiny: tiny.replace("answers.jsonl", "40 crowns", "45 crowns"),
    "configuration": lambda tiny: tiny.configure("bm25", k1=0.4),
    "model": other_tokenizer,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_other_content_is_another_state(rich: Tiny, change: Callable[[Tiny], object]) -> None:
    before = state(rich).digest
    change(rich)
    assert state(rich).digest != before


def test_a_touched_file_is_the_same_state(rich: Tiny) -> None:
    before = state(rich)
    for file in rich.folder.rglob("*.*"):
        file.touch()
    assert state(rich) == before
