"""``type: cross_encoder``: a model reads the query and a document together and gives one number.

Nogueira and Cho: Passage Re-ranking with BERT, arXiv:1901.04085. The score is the model's output
before any activation (the logit): a sigmoid keeps the order, but in single precision makes the best
documents equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.models.batches import Lengths, in_batches
from rag_assets.models.loading import PACKAGES, default_device, import_model_libraries, quiet_models
from rag_assets.models.model_files import (
    ModelFiles,
    config_sha256,
    declared_max_seq_length,
    read_json,
    sha256,
)
from rag_assets.models.model_names import resolve_hub_model
from rag_assets.models.pickled_by_reference import ModelByHash
from rag_assets.retrieval.derived import Reranked, RerankedRetriever
from rag_assets.retrieval.reranking.candidates import Candidates, Pair, Scores
from rag_assets.retrieval.reranking.pair_scores import pair_lengths, scored_by_pairs, scored_now
from rag_assets.retrieval.workspace import Workspace

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model


Loaded = TypeVar("Loaded")

BATCH_SIZE = 32
"""Pairs that are scored at once."""


class LocalScorer(ModelByHash, ABC):
    """A model that reads a query with one document; it is loaded for the first pair."""

    kind: ClassVar[str]
    """What the model must be, for errors: ``cross-encoder``."""

    def __init__(
        self, model: str, *, max_length: int | None = None, batch_size: int = BATCH_SIZE
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: a folder, or a name at the hub.
            max_length: after how many tokens a pair is cut; None takes what the model declares.
            batch_size: pairs that are scored at once; changes scores by rounding only.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self.files = self._resolve(model)
        self._max_length = max_length
        self._batch_size = batch_size

    def _resolve(self, name: str) -> ModelFiles:
        return resolve_hub_model(name, self.kind)

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Return all that determines the score of a pair, without loading the model.

        Raises:
            UsageError: ``max_length`` is more than the model can read.
        """

    def lengths(self, pairs: Sequence[Pair], counted: Path | None) -> Lengths:
        """Return by what pairs are sorted, see :func:`pair_lengths`."""
        limit = self.describe()["max_length"]
        return pair_lengths(pairs, self.files, self._batch_size, limit, counted)

    def _open_model(self, load: Callable[[], Loaded]) -> Loaded:
        """Return what ``load`` gives.

        Raises:
            ModelUnavailable: it fails; one line.
        """
        from safetensors import SafetensorError

        failures = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)
        try:
            import_model_libraries()
            model = load()
        except failures as error:
            what = " ".join(str(error).split())[:300]
            raise ModelUnavailable(
                f"{self.kind} '{self.files.name}' in {self.files.path} cannot be loaded: {what}"
            ) from error
        return model


def described_model(files: ModelFiles, max_length: int | None) -> dict[str, Any]:
    """Return what of a model's files determines a score, without loading it.

    Args:
        files: the model's.
        max_length: after how many tokens a pair is cut; None takes what the model declares.

    Raises:
        UsageError: see :func:`token_limit`.
    """
    return {
        "weights_sha256": files.weights_sha256,
        "tokenizer_sha256": files.tokenizer_sha256,
        "config_sha256": config_sha256(files.path),
        "prompts_sha256": {file.name: sha256(file) for file in _prompt_files(files.path)},
        "max_length": token_limit(files.path, max_length),
        "precision": "float32",
    }


def token_limit(folder: Path, asked: int | None) -> int | None:
    """Return after how many tokens a pair is cut; None where nothing says it.

    Raises:
        UsageError: more are asked for than the model has positions.
    """
    config = read_json(folder / "config.json")
    sizes = config if isinstance(config, Mapping) else {}
    named = [sizes.get("max_position_embeddings"), sizes.get("n_positions")]
    positions = min((int(size) for size in named if size), default=None)
    if asked is not None:
        if positions is not None and asked > positions:
            raise UsageError(f"max_length is {asked}; the model in {folder} has {positions}")
        return asked
    limits = [limit for limit in (declared_max_seq_length(folder), positions) if limit]
    return min(limits, default=None)


def _prompt_files(folder: Path) -> list[Path]:
    """Return the files, of those that a folder has, which say what is put around a pair."""
    named = [folder / "config_sentence_transformers.json", *sorted(folder.glob("*.jinja"))]
    return [file for file in named if file.is_file()]


KIND = "cross-encoder"


class CrossEncoder(RerankedRetriever):
    """Reranking by a cross-encoder of sentence-transformers; scores are its logits.

    ``model`` is a folder or a name at the hub. A pair is cut after ``max_length`` tokens, by
    default as many as the model declares.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    scores_pairs: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    type: Literal["cross_encoder"]
    model: str = Field(min_length=1)
    batch_size: int = Field(default=BATCH_SIZE, ge=1, strict=True)
    max_length: int | None = Field(default=None, ge=8, strict=True)

    def described(self, *, exclude: frozenset[str] = frozenset()) -> Mapping[str, Any]:
        """Return the options that determine results: not the name of the model's files."""
        return super().described(exclude=exclude | {"batch_size", "model", "max_length"})

    def describe(self) -> Mapping[str, Any]:
        """Return what determines the score of a pair, by the model's files."""
        return {"model": self._scorer().describe()}

    def tokenizer_files(self) -> ModelFiles:
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
