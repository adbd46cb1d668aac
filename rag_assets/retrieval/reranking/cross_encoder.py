"""``type: cross_encoder``: a model reads the query and a document together and gives one number.

Nogueira and Cho: Passage Re-ranking with BERT, arXiv:1901.04085. The score is the model's output
before any activation (the logit): a sigmoid keeps the order, but in single precision makes the best
documents equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.errors import ModelUnavailable
from rag_assets.models.batches import in_batches
from rag_assets.models.loading import PACKAGES, default_device
from rag_assets.models.model_files import ModelFiles
from rag_assets.models.model_names import resolve_hub_model
from rag_assets.models.quiet import quiet_models
from rag_assets.package_versions import version
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Pair, Scores
from rag_assets.retrieval.reranking.local_models import (
    BATCH_SIZE,
    LocalScorer,
    described_model,
)
from rag_assets.retrieval.reranking.pair_scores import scored_by_pairs, scored_now
from rag_assets.retrieval.workspace import Workspace

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model


KIND = "cross-encoder"


class CrossEncoder(RerankedRetriever):
    """Reranking by a cross-encoder of sentence-transformers; scores are its logits.

    ``model`` is a folder or a name at the hub. A pair is cut after ``max_length`` tokens, by
    default as many as the model declares.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    scores_pairs: ClassVar[bool] = True

    type: Literal["cross_encoder"]
    model: str = Field(min_length=1)
    batch_size: int = Field(default=BATCH_SIZE, ge=1, strict=True)
    max_length: int | None = Field(default=None, ge=8, strict=True)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what scores."""
        return {name: version(name) for name in PACKAGES}

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results: not the name of the model's files."""
        return super().described(exclude=exclude | {"batch_size", "model", "max_length"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the score of a pair, by the model's files."""
        return {"model": self._scorer().describe()}

    def read_by(self) -> ModelFiles:
        """Return the model's files."""
        return resolve_hub_model(self.model, "cross-encoder")

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        """Score every new pair by the model."""
        return Reranked(scored_by_pairs(candidates, self._scorer(), workspace))

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        """Score the pairs of one query past the cache, when the model is in memory."""
        return scored_now(candidates, self._scorer())

    def _scorer(self) -> CrossEncoderScorer:
        return CrossEncoderScorer(
            self.model, max_length=self.max_length, batch_size=self.batch_size
        )


class CrossEncoderScorer(LocalScorer):
    """A cross-encoder; the model is loaded for the first pair."""

    kind: ClassVar[str] = KIND

    def describe(self) -> Mapping[str, Any]:
        """Return all that determines the score of a pair, without loading the model.

        Raises:
            UsageError: ``max_length`` is more than the model can read.
        """
        described = described_model(self.files, self._max_length)
        # Another padding changes the last bits. Scores by the default were kept without its size.
        batch = {} if self._batch_size == BATCH_SIZE else {"batch_size": self._batch_size}
        return {**described, **batch, "scorer": KIND, "activation": "none"}

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """Return the logit of each pair; float64, shape (len(pairs),).

        Pairs of even length should stand together: batches are cut in their order.

        Raises:
            ModelUnavailable: the model cannot be loaded, or gives more than one number a pair.
        """
        if not pairs:
            return np.empty(0)
        limit = self.describe()["max_length"]
        files = self.files

        def load() -> Model:
            return _load(files.path, files.weights_sha256, limit, default_device())

        model = self._open_model(load)
        import torch

        with quiet_models():
            found = [
                model.predict(
                    batch,
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    activation_fn=torch.nn.Identity(),
                )
                for batch in in_batches(_shortened(model, pairs, limit), self._batch_size)
            ]
        scores: Scores = np.concatenate(found).astype(np.float64)
        if scores.shape != (len(pairs),):
            raise ModelUnavailable(
                f"{KIND} '{files.name}' gives {scores.shape[-1]} numbers for each pair; a reranker "
                "gives one: take a model that was trained with one label"
            )
        return scores


def _shortened(model: Model, pairs: Sequence[Pair], limit: int | None) -> list[tuple[str, str]]:
    """Return the pairs, of long texts only the first ``2 * limit`` tokens.

    What a tokenizer cuts off a pair it keeps, for every combination of pieces of both texts: two
    texts of thousands of words fill the memory (tokenizers 0.23). What the model reads does not
    change: twice as many tokens as fit are left, and of two texts the longer stays the longer, on
    which depends who gets the odd token.
    """
    if limit is None or not model.tokenizer.is_fast:
        return [(pair.query, pair.document) for pair in pairs]
    most = 2 * limit
    ends = {text: _token_ends(model, text, most) for pair in pairs for text in pair}

    def cut(text: str, other: str) -> str:
        own, kept = ends[text], most + (len(ends[text]) > len(ends[other]))
        return text if len(own) <= kept else text[: own[kept - 1]]

    return [(cut(*pair), cut(pair.document, pair.query)) for pair in pairs]


def _token_ends(model: Model, text: str, most: int) -> list[int]:
    """Return where each token of a text ends; nothing for a text that is short anyway."""
    if len(text) <= most:
        return []
    read = model.tokenizer(
        text,
        add_special_tokens=False,
        truncation=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    return [end for _, end in read["offset_mapping"]]


@lru_cache(maxsize=2)
def _load(path: Path, weights_sha256: str, max_length: int | None, device: str) -> Model:
    """Load; the hash of the weights is there so that other weights at a path are loaded anew."""
    import torch

    with quiet_models():
        from sentence_transformers import CrossEncoder as Model

        model: Model = Model(
            str(path),
            device=device,
            max_length=max_length,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        )
    return model
