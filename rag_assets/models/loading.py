"""Loads a model, once a process, in fp32 or in bfloat16; no code that comes with it is run.

bfloat16 has the range of fp32 and 8 bits of its 24: weights and what layers hand on are rounded to
3 digits. It pays only where the processor multiplies such numbers by itself.

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
from typing import Any, Literal, TypeVar

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import ModelFiles

Precision = Literal["float32", "bfloat16"]
PrecisionOption = Literal["auto", "float32", "bfloat16"]
Loaded = TypeVar("Loaded")

PACKAGES = ("sentence-transformers", "torch", "transformers")
"""What a model is loaded and run by."""

NOISY = ("transformers", "sentence_transformers", "huggingface_hub")
CPUINFO = Path("/proc/cpuinfo")

_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""As Linux names them: of x86 the first two, of Arm the last."""

MAX_LOADED = 2
"""Models that stay in memory: an experiment that compares two uses each several times."""

_loaded: set[tuple[Path, str, str, Precision]] = set()


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


def resolve_precision(wanted: PrecisionOption) -> Precision:
    """Return the precision that is used: ``auto`` is bfloat16 where the processor has it."""
    if wanted == "auto":
        return "bfloat16" if has_bfloat16(CPUINFO) else "float32"
    return wanted


@lru_cache
def has_bfloat16(cpuinfo: Path) -> bool:
    """Return whether a file such as ``/proc/cpuinfo``, which Linux has, names such instructions."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    named = (line.partition(":") for line in lines)
    flags = (value for name, _, value in named if name.strip() in ("flags", "Features"))
    return any(not _INSTRUCTIONS.isdisjoint(value.split()) for value in flags)


def precision_facts(wanted: PrecisionOption) -> dict[str, Any]:
    """Return the precision for a manifest, with a note for people where it is not fp32."""
    used = resolve_precision(wanted)
    if used == "float32":
        return {"precision": used}
    note = f"vectors were computed in {used} (precision: {wanted}); float32 is the reference"
    return {"precision": used, "notes": [note]}


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
    files: ModelFiles,
    device: str | None = None,
    precision: Precision = "float32",
    library: str = "SentenceTransformer",
) -> Any:  # noqa: ANN401 (a class of sentence-transformers)
    """Return a model of sentence-transformers, loaded by its class ``library``.

    Raises:
        ModelUnavailable: it cannot be loaded.
    """
    path, digest = files.path, files.sha256
    return loaded(
        "model", files, lambda: _load(path, digest, device or default_device(), library, precision)
    )


def is_loaded(
    files: ModelFiles, device: str | None = None, precision: Precision = "float32"
) -> bool:
    """Return whether the model is in memory; torch is not loaded to say that none is."""
    return (
        bool(_loaded)
        and (files.path, files.sha256, device or default_device(), precision) in _loaded
    )


def forget_models() -> None:
    """Drop all models from memory."""
    _load.cache_clear()
    _loaded.clear()


@lru_cache(maxsize=MAX_LOADED)
def _load(path: Path, sha256: str, device: str, library: str, precision: Precision) -> Any:  # noqa: ANN401
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import sentence_transformers
    import torch

    model = getattr(sentence_transformers, library)(
        str(path),
        device=device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"dtype": getattr(torch, precision), "use_safetensors": True},
    )
    if precision != "float32":
        model.to(getattr(torch, precision))  # also what is no transformer, such as a projection
    _loaded.add((path, sha256, device, precision))
    return model
