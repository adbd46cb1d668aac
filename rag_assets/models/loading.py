"""Loads a model, once a process, in fp32; no code that comes with it is run.

The model libraries write no bars and warnings, only while we call them. What they log is left alone
where this package's own debug lines are wanted.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import ModelFiles

Loaded = TypeVar("Loaded")

PACKAGES = ("sentence-transformers", "torch", "transformers")
"""What a model is loaded and run by."""

NOISY = ("transformers", "sentence_transformers", "huggingface_hub")

MAX_LOADED = 2
"""Models that stay in memory: an experiment that compares two uses each several times."""

_loaded: set[tuple[Path, str, str]] = set()


def import_model_libraries() -> None:
    """Import torch, transformers and sentence-transformers, and let none of them write."""
    import torch  # noqa: F401

    with quiet_models():
        import sentence_transformers  # noqa: F401


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence the hub client inside the block."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    has_bars = not are_progress_bars_disabled()
    with _quiet_python(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also the hint that a variable overrules the switch below
        disable_progress_bars()
        try:
            yield
        finally:
            if has_bars:
                enable_progress_bars()


@contextmanager
def quiet_models() -> Iterator[None]:
    """Silence sentence-transformers, transformers and the hub client inside the block."""
    from transformers.utils import logging as transformers_logging

    has_bars = transformers_logging.is_progress_bar_enabled()
    with quiet_hub():
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            if has_bars:
                transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def _quiet_python() -> Iterator[None]:
    is_debugging = logging.getLogger("rag_assets").isEnabledFor(logging.DEBUG)
    levels = {} if is_debugging else {name: logging.getLogger(name).level for name in NOISY}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def default_device() -> str:
    """Return ``cuda`` where there is one, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def loaded(kind: str, files: ModelFiles, load: Callable[[], Loaded]) -> Loaded:
    """Return what ``load`` gives, called when the libraries are imported.

    Raises:
        ModelUnavailable: a model of this ``kind``, such as ``cross-encoder``, cannot be loaded.
    """
    from safetensors import SafetensorError

    failures = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)
    try:
        import_model_libraries()
        with quiet_models():
            return load()
    except failures as error:
        what = " ".join(str(error).split())[:300]
        raise ModelUnavailable(
            f"{kind} '{files.name}' in {files.path} cannot be loaded: {what}"
        ) from error


def load_model(
    files: ModelFiles, device: str | None = None, library: str = "SentenceTransformer"
) -> Any:  # noqa: ANN401 (a class of sentence-transformers)
    """Return a model of sentence-transformers, loaded by its class ``library``.

    Raises:
        ModelUnavailable: it cannot be loaded.
    """
    path, digest = files.path, files.sha256
    return loaded("model", files, lambda: _load(path, digest, device or default_device(), library))


def is_loaded(files: ModelFiles, device: str | None = None) -> bool:
    """Return whether the model is in memory; torch is not loaded to say that none is."""
    return bool(_loaded) and (files.path, files.sha256, device or default_device()) in _loaded


def forget_models() -> None:
    """Drop all models from memory."""
    _load.cache_clear()
    _loaded.clear()


@lru_cache(maxsize=MAX_LOADED)
def _load(path: Path, sha256: str, device: str, library: str) -> Any:  # noqa: ANN401
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import sentence_transformers
    import torch

    model = getattr(sentence_transformers, library)(
        str(path),
        device=device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"dtype": torch.float32, "use_safetensors": True},
    )
    _loaded.add((path, sha256, device))
    return model
