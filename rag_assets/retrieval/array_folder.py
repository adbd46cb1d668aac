"""The files of an index: named arrays (``NAME.npy``) and JSON values (``NAME.json``), no pickle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_assets.errors import StoreError

CHUNK_IDS = "chunk_ids"
"""The ids of an index's chunks, by position: a list of texts."""


@dataclass(frozen=True)
class ArrayFolder:
    """A folder of an index; it exists."""

    path: Path

    def save(self, **content: object) -> int:
        """Write arrays, and JSON values in the order of their keys.

        Returns:
            The bytes of the arrays.
        """
        size = 0
        for name, value in content.items():
            if isinstance(value, np.ndarray):
                np.save(self.path / f"{name}.npy", value, allow_pickle=False)
                size += value.nbytes
            else:
                text = json.dumps(value, ensure_ascii=False, allow_nan=False)
                (self.path / f"{name}.json").write_text(text, encoding="utf-8")
        return size

    def array(self, name: str, *, mmap: bool = True) -> npt.NDArray[Any]:
        """Map an array, or read it.

        Raises:
            StoreError: the file is missing, damaged, or holds pickled objects.
        """
        file = self.path / f"{name}.npy"
        try:
            array = np.load(file, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise unreadable(file, error) from error
        return np.asarray(array)  # a view on the same memory, without the slow slices of np.memmap

    def texts(self, name: str) -> list[str]:
        """Read a JSON list.

        Raises:
            StoreError: the file is missing or no such list.
        """
        value = self._value(name)
        if not isinstance(value, list):
            raise unreadable(self.path / f"{name}.json", "not a JSON list")
        return value

    def mapping(self, name: str, keys: Iterable[str] = ()) -> dict[str, Any]:
        """Read a JSON object that has at least these keys.

        Raises:
            StoreError: the file is missing or no such object.
        """
        value = self._value(name)
        if not isinstance(value, dict) or not value.keys() >= set(keys):
            problem = f"not a JSON object with the keys {list(keys)}"
            raise unreadable(self.path / f"{name}.json", problem)
        return value

    def _value(self, name: str) -> object:
        file = self.path / f"{name}.json"
        try:
            value: object = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise unreadable(file, error) from error
        return value


def unreadable(path: Path, reason: Exception | str) -> StoreError:
    """Return the error of a file of an index that cannot be read."""
    return StoreError(f"{path}: file of an index cannot be read: {_text(reason)}")


def _text(reason: Exception | str) -> str:
    return getattr(reason, "strerror", None) or str(reason)
