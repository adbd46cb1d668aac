"""Models that give a vector a token (ColBERT and its kin), told apart by their own files.

sentence-transformers loads its own such models, those of PyLate and those of Stanford's ColBERT as
``MultiVectorEncoder``, with all that they were trained with: the markers before queries and
documents, the padding of queries that is scored too, the words that are not, and the projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_assets.models.model_files import modules_of, read_json, sha256
from rag_assets.models.model_folder_state import kept_while_unchanged

_TYPES = ("MultiVectorEncoder", "ColBERT")
_MARKERS = ("query_prefix", "document_prefix", "query_length", "do_query_expansion")
"""What PyLate has in its configuration, also where it names no type."""

_CONFIGS = ("config_sentence_transformers.json", "artifact.metadata")


@kept_while_unchanged
def is_multi_vector(folder: Path) -> bool:
    """Return whether a model folder holds such a model.

    Raises:
        ModelUnavailable: a file of its configuration is damaged.
    """
    own = _mapping(folder / "config_sentence_transformers.json")
    if own.get("model_type") in _TYPES or any(name in own for name in _MARKERS):
        return True
    if any("MultiVector" in str(part.get("type", "")) for part in modules_of(folder)):
        return True
    return "HF_ColBERT" in (_mapping(folder / "config.json").get("architectures") or [])


def interaction_sha256(folder: Path) -> Mapping[str, str]:
    """Return the hashes of the files that say how queries and documents are read."""
    return {name: sha256(folder / name) for name in _CONFIGS if (folder / name).is_file()}


def _mapping(file: Path) -> Mapping[str, Any]:
    content = read_json(file)
    return content if isinstance(content, Mapping) else {}
