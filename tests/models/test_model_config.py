from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_assets.models.model_files import (
    declared_max_seq_length,
    declared_prompt,
    has_tasks,
    model_sha256,
)


def test_default_model(minilm_folder: Path) -> None:
    assert declared_max_seq_length(minilm_folder) == 256
    assert declared_prompt(minilm_folder, "query") == ""
    assert declared_prompt(minilm_folder, "document") == ""
    assert not has_tasks(minilm_folder)


@pytest.mark.parametrize(
    ("config", "query", "document"),
    [
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"query": "q ", "document": "", "passage": "p "}}, "q ", ""),
        ({"prompts": {"s2s": "same: "}, "default_prompt_name": "s2s"}, "same: ", "same: "),
        ({"prompts": {"corpus": "c: "}, "default_prompt_name": None}, "", "c: "),
        ({"prompts": None}, "", ""),
    ],
)
def test_prompts(small_files: Path, config: dict[str, object], query: str, document: str) -> None:
    (small_files / "config_sentence_transformers.json").write_text(json.dumps(config))
    assert declared_prompt(small_files, "query") == query
    assert declared_prompt(small_files, "document") == document


def test_limit_of_the_tokenizer_counts_when_the_model_declares_none(small_files: Path) -> None:
    (small_files / "sentence_bert_config.json").write_text("{}")
    assert declared_max_seq_length(small_files) == 512
    (small_files / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    (small_files / "config.json").write_text("{}")
    assert declared_max_seq_length(small_files) is None


def test_every_file_of_the_model_counts(small_files: Path) -> None:
    before = model_sha256(small_files)
    (small_files / "README.md").write_text("changed")
    assert model_sha256(small_files) == before
    (small_files / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert model_sha256(small_files) != before
