"""The plain files of an index: JSON and ``.npy``, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError


def save_json(path: Path, value: object) -> None:
    """Write ``value`` in the one JSON text that its order of keys gives."""
    path.write_text(json.dumps(value, ensure_ascii=False, allow_nan=False), encoding="utf-8")


def load_object(path: Path, *keys: str) -> dict[str, Any]:
    """Read a JSON object that has at least these keys.

    Raises:
        StoreError: the file is missing or not such an object.
    """
    value = _load_json(path)
    if not isinstance(value, dict) or not value.keys() >= set(keys):
        raise _unreadable(path, f"not a JSON object with the keys {list(keys)}")
    return value


def load_list(path: Path) -> list[str]:
    """Read a JSON list of strings.

    Raises:
        StoreError: the file is missing or not a JSON list.
    """
    value = _load_json(path)
    if not isinstance(value, list):
        raise _unreadable(path, "not a JSON list")
    return value


def load_array(path: Path, *, mmap: bool) -> npt.NDArray[Any]:
    """Read or map an array of an index.

    Raises:
        StoreError: the file is missing, damaged, or holds pickled objects.
    """
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, _reason(error)) from error
    return np.asarray(array)  # a view on the same memory, without the slow slices of np.memmap


def _load_json(path: Path) -> object:
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(path, _reason(error)) from error
    return value


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _unreadable(path: Path, reason: str) -> StoreError:
    return StoreError(f"{path}: file of a lexical index cannot be read: {reason}")
