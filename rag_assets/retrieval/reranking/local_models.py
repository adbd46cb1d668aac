"""Reranking models on this machine: their files by a folder or the hub, and what scores by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.models.batches import Lengths
from rag_assets.models.model_config import config_sha256, declared_max_seq_length
from rag_assets.models.model_files import ModelFiles, read_json, sha256
from rag_assets.models.model_names import resolve_hub_model
from rag_assets.models.pickled_by_reference import SentByName
from rag_assets.models.quiet import import_model_libraries
from rag_assets.retrieval.reranking.candidates import Pair
from rag_assets.retrieval.reranking.pair_scores import pair_lengths

Loaded = TypeVar("Loaded")

BATCH_SIZE = 32
"""Pairs that are scored at once."""


class LocalScorer(SentByName, ABC):
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
