from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_assets.errors import ModelUnavailable
from rag_assets.retrieval.reranking.candidates import Candidates
from rag_assets.retrieval.reranking.pair_scores import rerank_by_pairs
from rag_assets.retrieval.reranking.query_likelihood import QueryLikelihoodScorer
from rag_assets.store.number_caches import Pair
from tests.retrieval.reranking.tiny_models import LONGEST, language_model

QUERY = "wind"
DOCUMENTS = ["closed by wind", "a dog", "", "naïve ☃"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model(tmp_path_factory.mktemp("models") / "gpt2")


def token_by_token(folder: Path, prompt: str, query: str) -> float:
    """Return the mean log probability, each token asked for by itself."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    load: Any = AutoModelForCausalLM.from_pretrained
    model = load(folder).eval()
    ids = tokenizer(prompt)["input_ids"]
    logs = []
    for token in tokenizer(query)["input_ids"]:
        with torch.inference_mode():
            last = model(torch.tensor([ids])).logits[0, -1].double().numpy()
        logs.append(last[token] - last.max() - np.log(np.exp(last - last.max()).sum()))
        ids = [*ids, token]
    return float(np.mean(logs))


def test_the_mean_log_probability_of_the_query(folder: Path) -> None:
    expected = [
        token_by_token(folder, f"Passage: {document}\nQuery:", f" {QUERY}")
        for document in DOCUMENTS
    ]
    pairs = [Pair(QUERY, document) for document in DOCUMENTS]
    for batch_size in (1, 3):
        scores = QueryLikelihoodScorer(str(folder), batch_size=batch_size).score(pairs)
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(scores.tolist())) == len(DOCUMENTS)


def test_queries_of_different_lengths_share_a_batch(folder: Path) -> None:
    pairs = [Pair("w", "a b c"), Pair("wind and rain", "a"), Pair("", "a")]
    scores = QueryLikelihoodScorer(str(folder)).score(pairs)
    alone = QueryLikelihoodScorer(str(folder), batch_size=1).score(pairs)
    np.testing.assert_allclose(scores, alone, atol=1e-5)
    assert scores[2] == 0.0


def test_the_end_of_a_long_document_is_cut(folder: Path) -> None:
    scorer = QueryLikelihoodScorer(str(folder))
    assert scorer.describe()["max_length"] == 2 * LONGEST
    scores = scorer.score([Pair(QUERY, "x" * 1000), Pair(QUERY, "x" * 2000)])
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    long = scorer.score([Pair("word " * 10_000, "text " * 10_000)])
    assert np.isfinite(long).all()


def test_scores_come_from_the_cache_the_second_time(folder: Path, tmp_path: Path) -> None:
    one = Candidates("q", QUERY, ["a", "b", "c", "d"], DOCUMENTS, np.zeros(4))
    scorer = QueryLikelihoodScorer(str(folder))
    (first,) = rerank_by_pairs([one], scorer.score, scorer.describe(), tmp_path)
    told: list[tuple[int, int]] = []
    (again,) = rerank_by_pairs(
        [one], scorer.score, scorer.describe(), tmp_path, lambda *done: told.append(done)
    )
    assert first.tobytes() == again.tobytes()
    assert told == []


def test_a_missing_model_says_what_to_do() -> None:
    with pytest.raises(ModelUnavailable, match="causal language model 'nobody/nothing' is not"):
        QueryLikelihoodScorer("nobody/nothing")
