"""Chat models and embeddings behind a server, and a language model in this process.

A server speaks the OpenAI protocol. A text that was embedded before is looked up. An answer's
vectors are ordered by their ``index``, as the protocol says.

In this process a model runs by ``transformers``, from a folder or the hub: a sequence-to-sequence
one (T5, BART) or a causal one (Llama, GPT-2). With beam search it may write several sequences for
one request; the answer is then a JSON list of those that differ, the most probable first.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.compute.compute import LOCAL, Compute
from rag_assets.errors import ModelUnavailable, NotServed
from rag_assets.llm.client import LENGTH, REFUSAL, STOP, Answer, ChatRequest, Completion, now
from rag_assets.llm.completions import CallLimit
from rag_assets.models.cache_fill import Vectors
from rag_assets.models.model_files import default_device, loaded, quiet_models
from rag_assets.models.model_names import ModelByHash, resolve_model
from rag_assets.models.token_counts import in_batches
from rag_assets.package_versions import version
from rag_assets.servers.client import ModelClient, ServedModelOptions, token_count
from rag_assets.servers.failures import Failed, malformed


class OpenAICompatible(ModelClient):
    """A chat model behind a server."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The model's name and its server."""
        return self.options.served_model

    def answer(self, request: ChatRequest) -> Answer:
        """Ask, and ask again where the server did not serve.

        Raises:
            ModelUnavailable: no request can succeed.
        """
        return self.result(lambda: self._attempt(request))

    def _attempt(self, request: ChatRequest) -> Completion:
        optional = {"temperature": request.temperature, "seed": request.seed}
        body: dict[str, Any] = {
            "model": self.options.model,
            "messages": [message._asdict() for message in request.messages],
            "max_tokens": request.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }
        started = time.perf_counter()
        completion = _completion(self.post("/chat/completions", body))
        return completion._replace(seconds=time.perf_counter() - started, time=now())


def _completion(answer: Any) -> Completion:  # noqa: ANN401 (servers send what they like)
    """Return the first choice of an answer.

    Raises:
        ServerFailure: it is not what the protocol says.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no list of choices")
    message, reason = choices[0]["message"], str(choices[0].get("finish_reason") or STOP)
    refusal = message.get("refusal")
    text = refusal or message.get("content")
    if refusal or reason == "content_filter":
        text, reason = str(text or ""), REFUSAL
    if not isinstance(text, str):
        raise malformed("it has no text")
    usage = _usage(answer)
    prompt, written = (token_count(usage.get(n)) for n in ("prompt_tokens", "completion_tokens"))
    served = answer.get("model")
    served = served if isinstance(served, str) and served else None
    f"{text}{reason}{served}".encode()  # half a character of JSON, such as \ud800, is no text
    return Completion(text, prompt, written, reason, served_model=served)


def _usage(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an answer says of its tokens, which a server may leave out or write otherwise."""
    usage = answer.get("usage")
    return usage if isinstance(usage, Mapping) else {}


_MAX_MEBIBYTES = 256
"""Of an answer: 2,048 vectors of 3,072 dimensions, written as decimal numbers."""


class OpenAIEmbeddings(ModelClient):
    """An embedding model behind a server."""

    def __init__(
        self, options: ServedModelOptions, *, dimensions: int | None = None, batch_size: int = 64
    ) -> None:
        """Read the key from its environment variable; nothing is sent yet.

        Args:
            options: where the model is, and how it is asked.
            dimensions: asks the server for shorter vectors; None takes the model's own.
            batch_size: texts a request.

        Raises:
            UsageError: the variable is not set, or holds what no header can.
        """
        super().__init__(options, max_mebibytes=_MAX_MEBIBYTES)
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._calls = CallLimit(options.max_calls)

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[int, Vectors]]:
        """Yield (number of the first text of a request, vectors), a few requests at a time.

        Yields:
            float32 of shape (texts of the request, dimension), as the server sent them.

        Raises:
            ModelUnavailable: the server refuses, cannot be reached, or answers something else; one
                line, without the key.
            BudgetReached: ``max_calls`` allow no more; what was given before stays known.
        """
        works = [(partial(self._embed, batch), 1) for batch in in_batches(texts, self._batch_size)]
        for number, vectors in self._calls.results(works, self.concurrency):
            yield number * self._batch_size, vectors

    def _embed(self, texts: list[str]) -> Vectors:
        vectors = self.result(lambda: self._attempt(texts))
        if isinstance(vectors, Failed):
            error = NotServed if vectors.retryable else ModelUnavailable
            place = f"model '{self.options.model}' at {self.server.place}"
            raise error(f"{place} is not available: {vectors.reason}")
        return vectors

    def _attempt(self, texts: list[str]) -> Vectors:
        body: dict[str, Any] = {"model": self.options.model, "input": texts}
        body["encoding_format"] = "base64"  # a quarter of the bytes, where a server knows it
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        answer = self.post("/embeddings", body)
        rows = {row["index"]: _vector(row["embedding"]) for row in answer["data"]}
        if sorted(rows) != list(range(len(texts))) or len(answer["data"]) != len(texts):
            raise ValueError(f"{len(answer['data'])} vectors for {len(texts)} texts")
        vectors: Vectors = np.array([rows[row] for row in range(len(texts))], dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size:
            raise ValueError("the vectors are empty")
        if self._dimensions is not None and vectors.shape[1] != self._dimensions:
            given = vectors.shape[1]
            raise ValueError(f"vectors of {given} dimensions, not the {self._dimensions} asked for")
        self.count_tokens(_usage(answer).get("total_tokens"))
        return vectors


def _vector(given: Any) -> Any:  # noqa: ANN401 (servers send what they like)
    if isinstance(given, str):
        return np.frombuffer(base64.b64decode(given, validate=True), "<f4")
    return given


class LocalTransformers(ModelByHash):
    """One model, in fp32, one request at a time: answers depend on nothing else.

    The weights are loaded by the first request, and no code that comes with them is run.
    """

    kind = "language model"

    def __init__(
        self, model: str, *, beams: int = 1, sequences: int = 1, compute: Compute = LOCAL
    ) -> None:
        """Resolve the model's files; nothing is loaded.

        Args:
            model: a folder, or a name at the hub.
            beams: hypotheses that beam search follows; 1: none.
            sequences: texts of one answer; without beams each is drawn.
            compute: where it answers, in each worker one request at a time.

        Raises:
            ModelUnavailable: the model's files cannot be had.
        """
        self.files = resolve_model(model, self.kind)
        self._beams, self._sequences, self._compute = beams, sequences, compute

    def __getstate__(self) -> dict[str, Any]:
        """Return it without the cluster, for a worker of it."""
        return {**vars(self), "_compute": LOCAL}

    @property
    def identity(self) -> Mapping[str, str]:
        """The files, the library that runs them, and how it searches."""
        files = self.files
        return {
            "model": files.path.name if files.source == "folder" else files.name,
            "model_sha256": files.sha256,
            "engine": f"transformers {version('transformers')}, fp32",
            "beams": str(self._beams),
            "sequences": str(self._sequences),
        }

    @property
    def concurrency(self) -> int:
        """One for each worker."""
        return self._compute.n_workers

    def answer(self, request: ChatRequest) -> Answer:
        """Answer a request.

        Raises:
            ModelUnavailable: the model cannot be loaded, or has no way to write so many sequences.
        """
        if self._sequences > self._beams and not request.temperature:
            needs = f"{self._sequences} sequences need as many beams, or a temperature above 0"
            raise ModelUnavailable(f"LLM: {needs}")
        ((_, answer),) = self._compute.map(self._answer, [(request,)])
        return answer

    def _answer(self, request: ChatRequest) -> Answer:
        tokenizer, model = self._load()
        with quiet_models():
            return generated(tokenizer, model, request, self._beams, self._sequences)

    def _load(self) -> tuple[Any, Any]:
        files = self.files
        return loaded(self.kind, files, lambda: _load(files.path, files.sha256, default_device()))


def generated(
    tokenizer: Any,  # noqa: ANN401 (transformers)
    model: Any,  # noqa: ANN401 (transformers)
    request: ChatRequest,
    beams: int = 1,
    sequences: int = 1,
) -> Answer:
    """Return what a loaded model writes.

    A tokenizer with a chat template gets the messages by it; else their texts, a blank line
    between. Temperature 0 or none takes the most probable, any other draws from all tokens.
    """
    import torch

    started = time.perf_counter()
    tokens = _tokens(tokenizer, request).to(model.device)
    n_asked = int(tokens["input_ids"].shape[1])
    is_encoder_decoder = bool(model.config.is_encoder_decoder)
    positions = getattr(model.config, "max_position_embeddings", None)
    longest = max(n_asked, request.max_tokens)
    needed = longest if is_encoder_decoder else n_asked + request.max_tokens
    if positions is not None and needed > positions:
        needs = f"{n_asked} tokens and {request.max_tokens} of the answer"
        return Failed(f"{needs} do not fit in the model's {positions}")
    is_drawn = bool(request.temperature)
    sampling = {"temperature": request.temperature, "top_k": 0} if is_drawn else {}
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode():
        if request.seed is not None:
            torch.manual_seed(request.seed)
        rows = model.generate(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            max_new_tokens=request.max_tokens,
            do_sample=is_drawn,
            num_beams=beams,
            num_return_sequences=sequences,
            **sampling,
        ).tolist()
    # Of an encoder and decoder the first token only says that the answer begins.
    rows = [row[1 if is_encoder_decoder else n_asked :] for row in rows]
    end = model.generation_config.eos_token_id
    ends = set(end if isinstance(end, list) else [end])
    texts = [tokenizer.decode(row, skip_special_tokens=True).strip() for row in rows]
    text = texts[0]
    if sequences > 1:
        text = json.dumps(list(dict.fromkeys(texts)), ensure_ascii=False)
    n_written = sum(_length(row, ends) for row in rows)
    seconds = time.perf_counter() - started
    reason = LENGTH if ends.isdisjoint(rows[0]) else STOP
    return Completion(text, n_asked, n_written, reason, seconds, time=now())


def _length(row: list[int], ends: set[int | None]) -> int:
    """Return how many tokens were written: padding follows the first end."""
    return next((n for n, token in enumerate(row, start=1) if token in ends), len(row))


def _tokens(tokenizer: Any, request: ChatRequest) -> Any:  # noqa: ANN401 (transformers)
    if tokenizer.chat_template:
        messages = [message._asdict() for message in request.messages]
        return tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
    text = "\n\n".join(message.content for message in request.messages)
    return tokenizer(text, return_tensors="pt", verbose=False)


@lru_cache(maxsize=1)
def _load(path: Path, sha256: str, device: str) -> tuple[Any, Any]:
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    local = {"local_files_only": True, "trust_remote_code": False}
    config: Any = AutoConfig.from_pretrained(path, **local)
    kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    tokenizer: Any = AutoTokenizer.from_pretrained(path, **local)
    model: Any = kind.from_pretrained(path, dtype=torch.float32, use_safetensors=True, **local)
    return tokenizer, model.to(device).eval()
