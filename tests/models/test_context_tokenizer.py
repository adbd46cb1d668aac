from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_names import (
    context_tokenizer_file,
    open_tokenizer,
)
from tests.context_tokens import word_tokenizer

TEXT = "tokenization of Constantinople"


def test_a_file_or_the_folder_of_it_needs_no_weights(tmp_path: Path) -> None:
    file = word_tokenizer(tmp_path)
    assert context_tokenizer_file(str(file)) == file
    assert context_tokenizer_file(str(tmp_path)) == file
    assert len(open_tokenizer(file).encode(TEXT).ids) == 3


def test_one_in_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--some--model"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    word_tokenizer(snapshot)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    file = context_tokenizer_file("some/model")
    assert len(open_tokenizer(file).encode(TEXT).ids) == 3
    with pytest.raises(ModelUnavailable) as caught:
        context_tokenizer_file("some/other")
    assert "the tokenizer of 'some/other' is not available: " in str(caught.value)
    assert "leave `context.tokenizer` out" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "tokenizer.json"
    with pytest.raises(ModelUnavailable, match="does not exist; give an existing file"):
        context_tokenizer_file(str(missing))
    with pytest.raises(ModelUnavailable, match=r"there is no tokenizer\.json"):
        context_tokenizer_file(str(tmp_path))
    missing.write_text("{}")
    with pytest.raises(ModelUnavailable, match="is not a tokenizer"):
        open_tokenizer(missing)
