"""Loads a model, once a process, in fp32 or in bfloat16; no code that comes with it is run.

bfloat16 has the range of fp32 and 8 bits of its 24: weights and what layers hand on are rounded to
3 digits. It pays only where the processor multiplies such numbers by itself.

The model libraries write no bars and warnings, only while we call them. What they log is left alone
where this package's own debug lines are wanted.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
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

MAX_LOADED = 4
"""Models that stay in memory: an experiment that compares two uses each several times."""

_loaded: set[tuple[Path, str, Precision, str]] = set()


@contextmanager
def quiet_models() -> Iterator[None]:
    """Silence the hub client and, once they are imported, the model libraries in the block."""
    hub = import_module("huggingface_hub.utils.tqdm")

    bars: list[tuple[Callable[[], object], Callable[[], object]]] = []
    if not hub.are_progress_bars_disabled():
        bars.append((hub.disable_progress_bars, hub.enable_progress_bars))
    if "transformers" in sys.modules:
        from transformers.utils import logging as transformers

        if transformers.is_progress_bar_enabled():
            bars.append((transformers.disable_progress_bar, transformers.enable_progress_bar))
    is_debugging = logging.getLogger("rag_assets").isEnabledFor(logging.DEBUG)
    loggers = [] if is_debugging else [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also the hint that a variable overrules the switch below
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        for disable, _ in bars:
            disable()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            for _, enable in bars:
                enable()


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
        with quiet_models():
            import sentence_transformers  # noqa: F401
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
    kind: str = "model",
    **options: int | None,
) -> Any:  # noqa: ANN401 (a class of sentence-transformers)
    """Return a model of sentence-transformers, loaded by its class ``library`` with ``options``.

    Raises:
        ModelUnavailable: it cannot be loaded.
    """
    key = (files.path, files.sha256, precision)
    return loaded(kind, files, lambda: _load(*key, device or default_device(), library, **options))


def is_loaded(
    files: ModelFiles, device: str | None = None, precision: Precision = "float32"
) -> bool:
    """Return whether the model is in memory; torch is not loaded to say that none is."""
    key = (files.path, files.sha256, precision)
    return bool(_loaded) and (*key, device or default_device()) in _loaded


def forget_models() -> None:
    """Drop all models from memory."""
    _load.cache_clear()
    _loaded.clear()


@lru_cache(maxsize=MAX_LOADED)
def _load(
    path: Path,
    sha256: str,
    precision: Precision,
    device: str,
    library: str,
    **options: int | None,
) -> Any:  # noqa: ANN401
    """Load; the hash of the files is there so that other ones at a path are loaded anew."""
    import sentence_transformers
    import torch

    model = getattr(sentence_transformers, library)(
        str(path),
        device=device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={"dtype": getattr(torch, precision), "use_safetensors": True},
        **options,
    )
    if precision != "float32":
        model.to(getattr(torch, precision))  # also what is no transformer, such as a projection
    _loaded.add((path, sha256, precision, device))
    return model
