"""Texts to vectors by a local model; a text that was encoded before is looked up.

A model is loaded for the first unknown text. Texts are cut into batches by their numbers of tokens:
sorted by letters, a tenth to a fifth of the tokens of a batch of English texts only fill it up;
sorted by tokens, a hundredth.

Learned sparse vectors (SPLADE and its kin) have one weight a word of the model's own. Formal,
Lassance, Piwowarski and Clinchant: SPLADE v2 (2021): the weight of a word is the maximum, over the
tokens of the text, of log(1 + relu(logit of the word)) by a masked language model. How a model
really pools stands in its own files.

sentence-transformers loads its own models of several vectors (ColBERT and its kin), those of PyLate
and those of Stanford's ColBERT as ``MultiVectorEncoder``, with all that they were trained with: the
markers before queries and documents, the padding of queries that is scored too, the words that are
not, and the projection. They are told apart by their own files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import DataError, ModelUnavailable
from rag_assets.models.cache_fill import (
    DENSE_VECTORS,
    SPARSE_VECTORS,
    TOKEN_VECTORS,
    MakeArray,
    Progress,
    Rows,
    SparseVector,
    Stored,
    TokenVectors,
    ValueCache,
    Values,
    Vectors,
    as_wanted,
    filled,
    in_groups,
    objects,
)
from rag_assets.models.model_files import (
    declared_max_seq_length,
    declared_prompt,
    has_tasks,
    is_loaded,
    json_object,
    load_model,
    modules_of,
    quiet_models,
)
from rag_assets.models.model_names import DEFAULT_MODEL, ModelByHash, resolve_model
from rag_assets.models.token_counts import batch_lengths, in_batches
from rag_assets.store.canonical import fingerprint
from rag_assets.store.content_cache import text_keys

Kind = Literal["query", "document"]

BATCH_SIZE = 16
BATCHES_PER_GROUP = 8


class TextEncoder(ModelByHash, ABC):
    """A model, its prompts and its cache.

    Attributes:
        stored: how what a text is encoded as lies in the cache.
        batch_size: texts that the model reads at once; changes values by rounding only.
    """

    stored: ClassVar[Stored]
    batch_size: int = BATCH_SIZE

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        cache: Path | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        device: str | None = None,
        compute: Compute = LOCAL,
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: name or folder, see ``resolve_model``.
            cache: folder of the cache; None remembers nothing.
            query_prompt: put before every query; None takes the model's own, empty takes none.
            document_prompt: the same for documents.
            device: ``cpu`` or ``cuda``; None takes CUDA where there is one.
            compute: where new texts are encoded; equal but for rounding.

        Raises:
            ModelUnavailable: the model's files cannot be had, or it does not encode so.
        """
        self.files = resolve_model(model)
        given: Mapping[Kind, str | None] = {"query": query_prompt, "document": document_prompt}
        self.prompts = given
        self._device = device
        self._cache, self._compute = cache, compute

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker on another machine needs: neither cache nor workers of its own."""
        return {**vars(self), "_cache": None, "_compute": LOCAL}

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory: a text was encoded, and not only looked up."""
        return is_loaded(self.files, self._device)

    def prompt(self, kind: Kind) -> str:
        """Return what is put before a text of this kind."""
        given = self.prompts[kind]
        return declared_prompt(self.files.path, kind) if given is None else given

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines what a text is encoded as, without loading the model.

        Versions of the libraries, the batch size and the device are not in it: between them a
        vector differs by rounding only.
        """
        return {
            "model_sha256": self.files.sha256,
            "prompt": self.prompt(kind),
            "task": kind if has_tasks(self.files.path) else None,
            "precision": "float32",
            "backend": "torch",
        }

    @abstractmethod
    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Any:  # noqa: ANN401
        """Encode texts past the cache, which is neither read nor written.

        Texts of even length should stand together: batches are cut in their order.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives what cannot be kept.
        """

    def space(self, kind: Kind) -> str:
        """Return the space of what this encoder computes now: all that counts but the text."""
        described = {name: v for name, v in self.describe(kind).items() if name != "prompt"}
        code = filled_by(root_of(type(self), "encode_now"), root_of(TextEncoder, "encode"))
        return fingerprint({**described, "code": code})

    def encode(
        self,
        texts: Sequence[str],
        *,
        kind: Kind,
        progress: Progress | None = None,
        make: MakeArray = np.zeros,
    ) -> Values:
        """Return what each text is encoded as: looked up, or encoded once and stored as it comes.

        Args:
            texts: may be empty strings, and may repeat.
            kind: which prompt, and which part of a model with two parts.
            progress: called with (texts encoded, texts to encode); not at all when none is new.
            make: gives the array of a shape that receives them; it may lie on disk.

        Raises:
            ModelUnavailable: the model cannot be loaded.
            DataError: the model gives what cannot be kept.
        """
        prompt = self.prompt(kind)
        cache = None
        if self._cache is not None:
            cache = ValueCache.of_space(self._cache, self.space(kind), self.stored)
        lengths = partial(
            batch_lengths, files=self.files, batch_size=self.batch_size, prompt=prompt
        )
        work, size = partial(self.encode_now, kind=kind), self.batch_size * BATCHES_PER_GROUP

        def compute(rows: Rows) -> Iterator[tuple[Rows, Values]]:
            return in_groups(texts, rows, lengths, work, size, self._compute)

        keys = text_keys([prompt + text for text in texts])
        return filled(keys, self.stored, cache, compute, progress=progress, make=make)

    def by_library(
        self,
        texts: Sequence[str],
        kind: Kind,
        library: str,
        **options: Any,  # noqa: ANN401
    ) -> list[Any]:
        """Return what a class of sentence-transformers gives for each text, in their order."""
        model = load_model(self.files, self._device, library)
        encode = model.encode_query if kind == "query" else model.encode_document
        # A model without a limit, a static one, fills up no batch.
        is_static = declared_max_seq_length(self.files.path) is None
        size = max(len(texts), 1) if is_static else self.batch_size
        options = {"prompt": self.prompt(kind), "batch_size": self.batch_size, **options}
        with quiet_models():
            return [
                row
                for batch in in_batches(texts, size)
                for row in encode(batch, show_progress_bar=False, **options)
            ]


class Encoder(TextEncoder):
    """A bi-encoder: one vector for each text."""

    stored = DENSE_VECTORS

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        normalise: bool = True,
        batch_size: int = BATCH_SIZE,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: name or folder, see ``resolve_model``.
            normalise: whether vectors are brought to length 1; else they are the model's own.
            batch_size: texts that are embedded at once; changes vectors by rounding only.
            options: of :class:`TextEncoder`, which says what is raised.
        """
        super().__init__(model, **options)
        self._normalise = normalise
        self.batch_size = batch_size

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model."""
        return {**super().describe(kind), "normalisation": "l2" if self._normalise else "none"}

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """Return the vectors of texts past the cache, of length 1 unless the model's are wanted."""
        raw = np.stack(self.by_library(texts, kind, "SentenceTransformer", convert_to_numpy=True))

        def name_of(row: int) -> str:
            return f"the {kind} {texts[row][:80]!r} by {self.files.name}"

        return as_wanted(raw, name_of, normalise=self._normalise)


SPARSE_MODULES = ("SpladePooling", "SparseAutoEncoder", "SparseStaticEmbedding", "Router")


class SparseTextEncoder(TextEncoder):
    """A sparse model, its prompts and its cache."""

    stored = SPARSE_VECTORS
    batch_size = 8  # a masked language model gives a number for each token and word

    def __init__(self, model: str, **options: Any) -> None:  # noqa: ANN401
        """Resolve the model's files, with the options of :class:`TextEncoder`.

        Raises:
            ModelUnavailable: they cannot be had, or the model makes no sparse vectors: its sparse
                part would be made of random weights when it is loaded.
        """
        super().__init__(model, **options)
        folder = self.files.path
        types = [str(part.get("type", "")).rpartition(".")[2] for part in modules_of(folder)]
        named = json_object(folder / "config.json").get("architectures") or []
        is_masked = not types and any(str(name).endswith("ForMaskedLM") for name in named)
        if not is_masked and not any(name in SPARSE_MODULES for name in types):
            raise ModelUnavailable(
                f"model '{self.files.name}' makes no sparse vectors: it has neither a module of "
                f"{', '.join(SPARSE_MODULES[:-1])}, nor is it a plain masked language model"
            )

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vector of a text, without loading the model."""
        return {**super().describe(kind), "vectors": "sparse"}

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Values:
        """Return the vectors of texts past the cache."""
        tensors = self.by_library(
            texts, kind, "SparseEncoder", convert_to_tensor=False, save_to_cpu=True
        )
        return objects([self._vector(*pair, kind) for pair in zip(tensors, texts, strict=True)])

    def _vector(self, tensor: Any, text: str, kind: Kind) -> SparseVector:  # noqa: ANN401 (torch)
        """Return a sparse tensor of one dimension without its zeros."""
        whole = tensor.coalesce()
        components = whole.indices()[0].numpy().astype(np.int32)
        weights = whole.values().float().numpy()
        if not np.isfinite(weights).all():
            problem = f"the vector of the {kind} {text[:80]!r} by {self.files.name}"
            raise DataError(f"{problem} holds NaN or infinity")
        present = np.flatnonzero(weights)
        return SparseVector(components[present], weights[present])


_TYPES = ("MultiVectorEncoder", "ColBERT")

_MARKERS = ("query_prefix", "document_prefix", "query_length", "do_query_expansion")
"""What PyLate has in its configuration, also where it names no type."""


class TokenEncoder(TextEncoder):
    """A model, its prompts, and a cache of token vectors in half precision.

    A prompt that is given to a model such as ColBERT replaces the model's own, its marker included.
    """

    stored = TOKEN_VECTORS

    def describe(self, kind: Kind) -> dict[str, Any]:
        """Return all that determines the vectors of a text, without loading the model."""
        described = {**super().describe(kind), "vectors": "tokens, float16"}
        return {**described, "task": kind} if is_multi_vector(self.files.path) else described

    def encode_now(self, texts: Sequence[str], *, kind: Kind) -> Values:
        """Return the token vectors of texts past the cache, each of length 1.

        Returns:
            float16, shape (tokens, dimension) for each text; a text without token has none. The
            maximum length of the model counts; what is beyond it has no vectors.
        """
        if is_multi_vector(self.files.path):
            vectors = self.by_library(
                texts,
                kind,
                "MultiVectorEncoder",
                prompt=self.prompts[kind],
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            return objects([tokens.astype(np.float16) for tokens in vectors])
        model, prompt = load_model(self.files, self._device), self.prompt(kind)
        with quiet_models():
            batches = in_batches([prompt + text for text in texts], self.batch_size)
            name = self.files.name
            return objects(
                [each for batch in batches for each in _token_vectors(model, batch, name)]
            )


def _token_vectors(model: Any, batch: list[str], name: str) -> list[TokenVectors]:  # noqa: ANN401
    """Return the unit vectors of all tokens of each text that are no special tokens."""
    import torch

    features = model.preprocess(batch)
    on_device = {n: v.to(model.device) if torch.is_tensor(v) else v for n, v in features.items()}
    with torch.inference_mode():
        vectors = model.forward(on_device).get("token_embeddings")
        if vectors is None:
            raise ModelUnavailable(f"model '{name}' makes no vectors of tokens")
        unit = torch.nn.functional.normalize(vectors.float(), dim=-1)
    special = torch.tensor(model.tokenizer.all_special_ids, device=model.device)
    is_word = on_device["attention_mask"].bool() & ~torch.isin(on_device["input_ids"], special)
    rows = unit.cpu().numpy().astype(np.float16)
    return [row[mask] for row, mask in zip(rows, is_word.cpu().numpy(), strict=True)]


def is_multi_vector(folder: Path) -> bool:
    """Return whether a model folder holds such a model.

    Raises:
        ModelUnavailable: a file of its configuration is damaged.
    """
    config = json_object(folder / "config_sentence_transformers.json")
    if config.get("model_type") in _TYPES or any(name in config for name in _MARKERS):
        return True
    if any("MultiVector" in str(part.get("type", "")) for part in modules_of(folder)):
        return True
    return "HF_ColBERT" in (json_object(folder / "config.json").get("architectures") or [])
