"""Tokens of texts: how many, and which a model cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import (
    DEFAULT_MODEL,
    context_tokenizer_file,
    open_tokenizer,
    resolve_model,
)
from rag_assets.models.token_counts import unknown_share, unreadable_warning
from tests.made_tables import word_tokenizer

VOCABULARY = {"[UNK]": 0, "a": 1, "b": 2}


def files(folder: Path, tokenizer: Tokenizer | None) -> ModelFiles:
    if tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
    return ModelFiles("tiny", folder, "", "", "folder")


def word_level() -> Tokenizer:
    return Tokenizer(models.WordLevel(VOCABULARY, "[UNK]"))


@pytest.mark.parametrize(
    ("texts", "share"),
    [(["a b"], 0), (["a x", "b y"], 0.5), (["x y z a"], 0.75), (["", " "], 0), ([], 0)],
)
def test_the_share_of_unknown_tokens(tmp_path: Path, texts: list[str], share: float) -> None:
    assert unknown_share(texts, files(tmp_path, word_level())) == share


def test_a_sample_is_spread_over_all_texts(tmp_path: Path) -> None:
    texts = ["a"] * 500 + ["x"] * 500
    assert unknown_share(texts, files(tmp_path, word_level())) == 0.5
    # What is far behind in a text is not read.
    assert unknown_share(["a " * 1_000 + "x " * 1_000], files(tmp_path, word_level())) == 0


def test_other_kinds_of_tokenizers(tmp_path: Path) -> None:
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("b", -1.0)], 0, False))
    assert unknown_share(["a x"], files(tmp_path, unigram)) == 0.5
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    of_bytes = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    assert unknown_share(["a x"], files(tmp_path, of_bytes)) == 0
    (tmp_path / "tokenizer.json").unlink()
    assert unknown_share(["a x"], files(tmp_path, None)) is None


def test_minilm_reads_english_and_no_chinese() -> None:
    minilm = resolve_model(DEFAULT_MODEL)
    assert unknown_share(["The ferry leaves at six.", "Der Hafen öffnet früh."], minilm) == 0
    share = unknown_share(["请问如何申请退款 订单编号在哪里查询"], minilm)
    assert share is not None
    assert share > 0.5


def test_the_line_names_retriever_model_and_share(tmp_path: Path) -> None:
    model = files(tmp_path, word_level())
    assert unreadable_warning("queries", 0.431, model) == (
        "43% of the tokens of the queries are unknown to its model 'tiny'; "
        "take a model that reads their language"
    )
    assert unreadable_warning("queries", 0.05, model) is None
    assert unreadable_warning("queries", None, model) is None


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
