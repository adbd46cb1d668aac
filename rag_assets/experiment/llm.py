"""The shape of ``llm`` in an ``experiment.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.llm.client import DEFAULT_BASE_URL, ChatModel
from rag_assets.llm.completions import Limits
from rag_assets.servers.client import ServedModelOptions, ServerAddress
from rag_assets.servers.secrets import host_of, is_loopback

Count = Annotated[int, Field(ge=1, strict=True)]

OF_SERVER = frozenset({"base_url", "api_key_env", "timeout", "concurrency", "retries", "backoff"})
"""Options of ``llm`` that a model in this process has no use for."""

OF_TRANSFORMERS = frozenset({"beams", "sequences"})
"""Options of ``llm`` of which only ``type: transformers`` knows."""

LIMIT = "`max_calls`, or `max_cost` with `prompt_price` and `completion_price`"


class LlmConfig(ServedModelOptions, Limits):
    """A language model that writes query variants and questions.

    ``type: openai`` is any server with that protocol at ``base_url``, or OpenAI's own without it.
    ``api_key_env`` is the environment variable with the key, null for a server that needs none.
    ``type: transformers`` runs ``model``, a folder or a name at the hub, in this process. More than
    one of ``beams`` means beam search; all ``sequences`` become variants of a ``multi_query``.
    ``max_calls`` and ``max_cost`` limit one evaluation; prices are per million tokens. Retries
    after a failure are not counted as calls.
    """

    type: Literal["openai", "transformers"] = "openai"
    base_url: ServerAddress | None = None  # type: ignore[assignment]
    api_key_env: str | None = "OPENAI_API_KEY"
    beams: Count = 1
    sequences: Count = 1

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        is_local = self.type == "transformers"
        ignored = self.model_fields_set & (OF_SERVER if is_local else OF_TRANSFORMERS)
        if ignored:
            other = "openai" if is_local else "transformers"
            raise ValueError(f"{', '.join(sorted(ignored))}: only for type: {other}")
        if self.sequences > self.beams > 1:
            raise ValueError(f"{self.sequences} sequences need as many beams, not {self.beams}")
        return self

    @property
    def names_host(self) -> bool:
        """Whether it says where texts go: by an address, or by a type that is written down."""
        return self.base_url is not None or "type" in self.model_fields_set

    @property
    def is_bounded(self) -> bool:
        """Whether it says how much may be asked."""
        return self.max_calls is not None or self.max_cost is not None

    def missing_limit(self) -> str | None:
        """Return what a model on another machine lacks: its host, or a limit; None: nothing."""
        if self.type != "openai" or (self.base_url and is_loopback(self.base_url)):
            return None
        if not self.names_host:
            return f"has no host; add `base_url: {DEFAULT_BASE_URL}`, or another one"
        if not self.is_bounded:
            host = host_of(self.base_url or DEFAULT_BASE_URL)
            return f"is at {host}: limit what may be sent, by {LIMIT}"
        return None

    def chat_model(self, compute: Compute = LOCAL) -> ChatModel:
        """Return the model; nothing is sent or loaded yet. ``compute`` is where a local one runs.

        Raises:
            UsageError: an extra is not installed, or its key is not set.
            ModelUnavailable: the files of a model in this process cannot be had.
        """
        if self.type == "transformers":
            from rag_assets.llm.models import LocalTransformers

            how = {"beams": self.beams, "sequences": self.sequences}
            return LocalTransformers(self.model, **how, compute=compute)
        from rag_assets.llm.models import OpenAICompatible

        return OpenAICompatible(self.endpoint())

    def identity(self) -> Mapping[str, str]:
        """Return what stands for the model in a fingerprint; needs no key.

        Raises:
            ModelUnavailable: the files of a model in this process cannot be had.
        """
        if self.type != "openai":
            return self.chat_model().identity
        return self.endpoint().served_model

    def endpoint(self) -> ServedModelOptions:
        """Return the server."""
        return self.model_copy(update={"base_url": self.base_url or DEFAULT_BASE_URL})
