"""Rerankers by a local model that scores a query with each text: ``cross_encoder``, ``maxsim``.

``type: cross_encoder``: a model reads the query and a document together and gives one number
(Nogueira and Cho: Passage Re-ranking with BERT, arXiv:1901.04085). The score is the model's output
before any activation (the logit), or a sigmoid of it: between 0 and 1. Each different pair is
scored once and kept.

``type: maxsim``: late interaction (MaxSim) over the token vectors of any bi-encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from rag_assets.code_versions.versions import filled_by, root_of
from rag_assets.errors import DataError, ModelUnavailable, UsageError
from rag_assets.models.cache_fill import Lengths, Rows, TokenVectors, Values, in_groups
from rag_assets.models.encoder import TokenEncoder
from rag_assets.models.model_files import (
    PACKAGES,
    declared_max_seq_length,
    default_device,
    json_object,
    loaded,
    quiet_models,
)
from rag_assets.models.model_names import DEFAULT_MODEL, ModelByHash, resolve_model
from rag_assets.models.token_counts import in_batches, token_counts
from rag_assets.retrieval.base import Role
from rag_assets.retrieval.reranking.candidates import (
    Candidates,
    Pair,
    Reranked,
    RerankedRetriever,
    pair_keys,
    pairs_of,
    scores_by_query,
)
from rag_assets.retrieval.unit_ranking import Scores
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace
from rag_assets.store.canonical import fingerprint

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model

KIND = "cross-encoder"

BATCH_SIZE = 32
"""Pairs that are scored at once."""

PORTION = 512
"""Pairs that are scored between two reports of progress."""

BLOCK = 64
"""Queries whose documents are looked up at once."""


class CrossEncoder(RerankedRetriever):
    """Reranking by a cross-encoder of sentence-transformers; scores are its logits.

    With ``activation: sigmoid`` they lie between 0 and 1, in the same order.

    ``model`` is a folder or a name at the hub. A pair is cut after ``max_length`` tokens, by
    default as many as the model declares.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    scores_pairs: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    type: Literal["cross_encoder"]
    model: Annotated[str, Field(min_length=1), Role.MODEL]
    batch_size: Annotated[int, Field(ge=1, strict=True), Role.MODEL] = BATCH_SIZE
    max_length: Annotated[int | None, Field(ge=8, strict=True), Role.MODEL] = None
    activation: Annotated[Literal["none", "sigmoid"], Role.MODEL] = "none"

    def describe(self) -> Mapping[str, Any]:
        squashed = {"activation": self.activation} if self.activation != "none" else {}
        return {"model": self._scorer().describe(), **squashed}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        scores = scored_by_pairs(candidates, self._scorer(), workspace)
        if self.activation != "none":
            scores = [np.exp(-np.logaddexp(0.0, -logits)) for logits in scores]
        return Reranked(scores)

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        texts = dict.fromkeys(candidates.texts)
        self._scorer().score([Pair(candidates.query, text) for text in texts])
        return True

    def _scorer(self) -> CrossEncoderScorer:
        return CrossEncoderScorer(
            self.model, max_length=self.max_length, batch_size=self.batch_size
        )


class CrossEncoderScorer(ModelByHash):
    """A cross-encoder; the model is loaded for the first pair."""

    kind = KIND

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
        self.files = resolve_model(model, KIND)
        self._max_length = max_length
        self._batch_size = batch_size

    def describe(self) -> Mapping[str, Any]:
        """Return all that determines the score of a pair, without loading the model.

        Raises:
            UsageError: ``max_length`` is more than the model can read.
        """
        return {
            "model_sha256": self.files.sha256,
            "max_length": self._token_limit(),
            "batch_size": self._batch_size,  # another padding changes the last bits
            "precision": "float32",
            "scorer": KIND,
            "activation": "none",
        }

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """Return the logit of each pair; float64, shape (len(pairs),).

        Pairs of even length should stand together: batches are cut in their order.

        Raises:
            ModelUnavailable: the model cannot be loaded, or gives more than one number a pair.
            DataError: a score is NaN or infinite.
        """
        if not pairs:
            return np.empty(0)
        limit, files = self._token_limit(), self.files
        model: Model = loaded(
            KIND, files, lambda: _load(files.path, files.sha256, limit, default_device())
        )
        import torch

        with quiet_models():
            parts = [
                model.predict(
                    batch,
                    batch_size=self._batch_size,
                    show_progress_bar=False,
                    activation_fn=torch.nn.Identity(),
                )
                for batch in in_batches(_shortened(model, pairs, limit), self._batch_size)
            ]
        scores: Scores = np.concatenate(parts).astype(np.float64)
        if scores.shape != (len(pairs),):
            raise ModelUnavailable(
                f"{KIND} '{files.name}' gives {scores.shape[-1]} numbers for each pair; a reranker "
                "gives one: choose a model trained with one label"
            )
        for row in np.flatnonzero(~np.isfinite(scores))[:1].tolist():
            query, document = pairs[row]
            raise DataError(
                f"the model scores query {query[:80]!r} with document {document[:80]!r} as "
                f"{scores[row]}; a score must be a finite number"
            )
        return scores

    def lengths(self, pairs: Sequence[Pair]) -> Lengths:
        """Return by what pairs are sorted.

        Tokens that the model reads, where they can be counted: those that stand around and between
        the texts are the same in all pairs, and are not exact. Letters of what is one batch anyway.
        """
        counts = None
        if len(pairs) > self._batch_size:
            texts = list(dict.fromkeys(text for pair in pairs for text in pair))
            counts = token_counts(texts, self.files)
        if counts is None:
            return np.array([len(pair.query) + len(pair.document) for pair in pairs], dtype=np.int_)
        count_of = dict(zip(texts, counts.tolist(), strict=True))
        both = np.array([count_of[pair.query] + count_of[pair.document] for pair in pairs])
        limit = self._token_limit()
        return both if limit is None else np.minimum(both, limit)

    def _token_limit(self) -> int | None:
        """Return after how many tokens a pair is cut; None where nothing says it.

        Raises:
            UsageError: more are asked for than the model has positions.
        """
        folder = self.files.path
        config = json_object(folder / "config.json")
        sizes = [config.get("max_position_embeddings"), config.get("n_positions")]
        positions = min((int(size) for size in sizes if size), default=None)
        wanted = self._max_length
        if wanted is not None:
            if positions is not None and wanted > positions:
                raise UsageError(f"max_length is {wanted}; the model in {folder} has {positions}")
            return wanted
        limits = [limit for limit in (declared_max_seq_length(folder), positions) if limit]
        return min(limits, default=None)


def scored_by_pairs(
    candidates: Sequence[Candidates], scorer: CrossEncoderScorer, workspace: Workspace
) -> list[Scores]:
    """Return the score of every candidate of every query, from the cache or by the model."""
    pairs = pairs_of(candidates)
    code = filled_by(f"{__name__}:scored_by_pairs", root_of(type(scorer), "score"))
    keys = pair_keys(fingerprint({**scorer.describe(), "code": code}), pairs)

    def compute(rows: Rows) -> Iterator[tuple[Rows, Values]]:
        return in_groups(pairs, rows, scorer.lengths, scorer.score, PORTION, workspace.compute)

    return scores_by_query(candidates, keys, compute, workspace)


def _shortened(model: Model, pairs: Sequence[Pair], limit: int | None) -> list[tuple[str, str]]:
    """Return the pairs, of long texts only the first ``2 * limit`` tokens.

    What a tokenizer cuts off a pair it keeps, for every combination of pieces of both texts: two
    texts of thousands of words fill the memory (tokenizers 0.23). What the model reads does not
    change: twice as many tokens as fit are left, and of two texts the longer stays the longer, on
    which depends who gets the odd token.
    """
    if limit is None or not model.tokenizer.is_fast:
        return [(pair.query, pair.document) for pair in pairs]
    n_most = 2 * limit
    long = list(dict.fromkeys(text for pair in pairs for text in pair if len(text) > n_most))
    if not long:
        return [(pair.query, pair.document) for pair in pairs]
    options = {"add_special_tokens": False, "truncation": False, "verbose": False}
    read = model.tokenizer(long, return_offsets_mapping=True, **options)["offset_mapping"]
    ends = {text: [end for _, end in of_text] for text, of_text in zip(long, read, strict=True)}

    def cut(text: str, other: str) -> str:
        n_tokens = len(ends.get(text, ()))
        n_left = n_most + (n_tokens > len(ends.get(other, ())))
        return text if n_tokens <= n_left else text[: ends[text][n_left - 1]]

    return [(cut(*pair), cut(pair.document, pair.query)) for pair in pairs]


@lru_cache(maxsize=2)
def _load(path: Path, sha256: str, max_length: int | None, device: str) -> Model:
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import torch
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


class MaxSim(RerankedRetriever):
    """Reranking by late interaction: every query token takes its best document token.

    It needs no model of its own: any bi-encoder's token vectors serve, and they are cached. A model
    that was trained for it (ColBERT) is read as it was trained.
    """

    model_kind: ClassVar[str | None] = "sentence-transformers"
    scores_pairs: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = PACKAGES

    type: Literal["maxsim"]
    model: str = Field(default=DEFAULT_MODEL, min_length=1)
    query_prompt: str | None = None
    document_prompt: str | None = None

    def describe(self) -> Mapping[str, Any]:
        encoder = self._encoder()
        return {"query": encoder.describe("query"), "document": encoder.describe("document")}

    def rerank(self, candidates: Sequence[Candidates], workspace: Workspace) -> Reranked:
        encoder, scores = self._encoder(workspace), list[Scores]()
        queries = iter(encoder.encode([query.query for query in candidates], kind="query"))
        with workspace.progress("rerank", len(candidates)) as advance:
            for block in in_batches(candidates, BLOCK):
                texts = list(dict.fromkeys(text for query in block for text in query.texts))
                vectors_of = encoder.encode(texts, kind="document")
                documents = dict(zip(texts, vectors_of, strict=True))
                scores += [
                    np.array([maxsim(vectors, documents[text]) for text in query.texts])
                    for query, vectors in zip(block, queries, strict=False)
                ]
                advance(len(scores))
        return Reranked(scores)

    def rerank_now(self, candidates: Candidates, workspace: Workspace) -> bool:
        self._encoder().encode_now([candidates.query], kind="query")
        self.rerank([candidates], workspace)
        return True

    def _encoder(self, workspace: Workspace = NO_WORKSPACE) -> TokenEncoder:
        return TokenEncoder(**workspace.encoder_options(self, "token_vectors"))


NOTHING = -1.0
"""The score of a query or document without a token: below every other."""


def maxsim(query: TokenVectors, document: TokenVectors) -> float:
    """Return the mean over query tokens of the highest cosine with a document token.

    Khattab and Zaharia: ColBERT (SIGIR 2020) have the sum. By the mean scores of queries of
    different lengths have the same range; of one query, it orders documents as the sum does.

    Args:
        query: unit vectors, shape (query tokens, dimension).
        document: unit vectors, shape (document tokens, dimension).
    """
    if not len(query) or not len(document):
        return NOTHING
    cosines = query.astype(np.float32) @ document.astype(np.float32).T
    return float(cosines.max(axis=1).astype(np.float64).mean())
