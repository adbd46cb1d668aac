"""What a model's own JSON files say about how it makes a vector, read without loading it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rag_assets.errors import ModelUnavailable
from rag_assets.models.model_files import (
    kept_while_unchanged,
    module_folders,
    modules_of,
    read_json,
    sha256,
)
from rag_assets.store.canonical import fingerprint

PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names under which a model declares its prompt, first one first."""

CONFIG_PATTERNS = (
    "modules.json",
    "config.json",
    "sentence_*_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@kept_while_unchanged
def declared_prompt(folder: Path, kind: str) -> str:
    """Return the prompt that the model declares for ``query`` or ``document``, else empty."""
    config = _mapping(folder / "config_sentence_transformers.json")
    prompts = config.get("prompts") or {}
    for name in (*PROMPT_NAMES[kind], config.get("default_prompt_name")):
        if prompts.get(name) is not None:
            return str(prompts[name])
    return ""


@kept_while_unchanged
def declared_max_seq_length(folder: Path) -> int | None:
    """Return after how many tokens a text is cut; None when the model declares no limit."""
    first = module_folders(folder)[0]
    for file in sorted(first.glob("sentence_*_config.json")):
        declared = _mapping(file).get("max_seq_length")
        if declared is not None:
            return int(declared)
    limits = (
        _mapping(first / "tokenizer_config.json").get("model_max_length"),
        _mapping(first / "config.json").get("max_position_embeddings"),
    )
    # Without a limit of its own a tokenizer declares 1e30.
    known = [int(limit) for limit in limits if limit is not None and 0 < limit < 1e9]
    return min(known, default=None)


@kept_while_unchanged
def declared_pooling(folder: Path) -> list[str]:
    """Return how token vectors become one; ``mean`` for a model without a pooling module.

    That default is the one of sentence-transformers for a plain transformer. A static model has
    no pooling module either, and is a mean too.
    """
    for part in module_folders(folder):
        config = _mapping(part / "config.json")
        mode = config.get("pooling_mode")
        if mode is not None:
            return [mode] if isinstance(mode, str) else [str(name) for name in mode]
        if any(flag in config for flag in POOLING_FLAGS):
            return [name for flag, name in POOLING_FLAGS.items() if config.get(flag)] or ["mean"]
    return ["mean"]


@kept_while_unchanged
def has_tasks(folder: Path) -> bool:
    """Return whether the model embeds queries and documents by different modules."""
    types = [str(part.get("type", "")) for part in modules_of(folder)]
    return any(name.endswith((".Router", ".Asym")) for name in types)


@kept_while_unchanged
def config_sha256(folder: Path) -> str:
    """Return one hash of all configuration files that shape a vector."""
    return fingerprint({name: sha256(file) for name, file in _config_files(folder)})


def _config_files(folder: Path) -> Iterator[tuple[str, Path]]:
    for part in dict.fromkeys((folder, *module_folders(folder))):
        for pattern in CONFIG_PATTERNS:
            for file in sorted(part.glob(pattern)):
                yield file.relative_to(folder).as_posix(), file


def _mapping(file: Path) -> Mapping[str, Any]:
    content = read_json(file)
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise ModelUnavailable(f"{file}: must be a JSON object")
    return content
