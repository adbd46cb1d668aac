"""Query vectors for a search that is not ours, by an embedding model of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from rag_assets.models.encoder import Encoder
from rag_assets.models.known_prompts import Prompts, prompts_of
from rag_assets.models.loading import PACKAGES
from rag_assets.options import Options
from rag_assets.package_versions import version
from rag_assets.retrieval.workspace import NO_WORKSPACE, Workspace, measured


class QueryEmbedding(Options):
    """The model that the vectors of a search are of; ``query_prompt`` is put before every query.

    With ``normalise`` vectors have length 1, else the model's own.
    """

    model: str = Field(min_length=1)
    query_prompt: str | None = None
    normalise: Annotated[bool, Field(strict=True)] = True

    def vectors(self, texts: Sequence[str], workspace: Workspace) -> list[list[float]]:
        """Return the vector of each text; known ones come from the cache.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        encoder = self._encoder(workspace)
        found = measured(
            lambda progress: encoder.encode(texts, kind="query", progress=progress),
            texts,
            "query",
            workspace,
        )
        vectors: list[list[float]] = found.tolist()
        return vectors

    def seconds(self, text: str) -> float:
        """Return the wall time of embedding a query, past the cache.

        Raises:
            ModelUnavailable: the model cannot be loaded.
        """
        encoder, before = self._encoder(NO_WORKSPACE), time.perf_counter()
        encoder.encode_now([text], kind="query")
        return time.perf_counter() - before

    def described(self) -> Mapping[str, Any]:
        """Return all that determines a vector, without loading the model."""
        return self._encoder(NO_WORKSPACE).describe("query")

    def prompts(self) -> Prompts:
        """Return what is put before queries.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        return prompts_of(self.model, self.query_prompt, "")

    def versions(self) -> Mapping[str, str]:
        """Return the versions of what embeds."""
        return {name: version(name) for name in PACKAGES}

    def _encoder(self, workspace: Workspace) -> Encoder:
        return Encoder(
            self.model,
            query_prompt=self.prompts().for_encoder("query"),
            normalise=self.normalise,
            cache=workspace.cache_of("embeddings"),
            counted=workspace.cache_of("token_counts"),
            compute=workspace.compute,
        )
