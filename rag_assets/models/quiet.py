"""Keep the model libraries from writing bars and warnings, only while we call them.

What they log is left alone where this package's own debug lines are wanted.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

NOISY = ("transformers", "sentence_transformers", "huggingface_hub")


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

    shown = not are_progress_bars_disabled()
    with _quiet_python(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # also the hint that a variable overrules the switch below
        disable_progress_bars()
        try:
            yield
        finally:
            if shown:
                enable_progress_bars()


@contextmanager
def quiet_models() -> Iterator[None]:
    """Silence sentence-transformers, transformers and the hub client inside the block."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    with quiet_hub():
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            if shown:
                transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def _quiet_python() -> Iterator[None]:
    if logging.getLogger("rag_assets").isEnabledFor(logging.DEBUG):
        yield
        return
    loggers = [logging.getLogger(name) for name in NOISY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
