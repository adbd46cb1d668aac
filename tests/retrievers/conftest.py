from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tiny_experiment import DOCUMENTS, Tiny


@pytest.fixture
def bm25_only(tmp_path: Path) -> Tiny:
    """One retriever, with an empty store."""
    tiny = Tiny(tmp_path / "bm25")
    tiny.config["retrievers"] = {"bm25": tiny.config["retrievers"]["bm25"]}
    tiny.config |= {"top_k": [1, 3, 50], "primary": "ndcg@3"}
    return tiny.write()


@pytest.fixture(scope="session")
def static_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A StaticEmbedding as model2vec and WordLlama publish it: a table of word vectors, no more."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    words = sorted(
        {word.strip(".").lower() for text in DOCUMENTS.values() for word in text.split()}
    )
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(["[UNK]", *words])}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    weights = np.random.default_rng(7).normal(size=(len(words) + 1, 64)).astype(np.float32)
    weights[0] = 1e-3
    folder = tmp_path_factory.mktemp("static")
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save_pretrained(str(folder))
    return folder
