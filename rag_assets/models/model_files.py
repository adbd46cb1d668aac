"""The files of a model folder: which exist, what they hash to, and what its JSON files declare.

None is a pickle. What is read from a folder is kept in this process while no file in it changes:
recipes describe a model dozens of times, and looking at its files' states takes a hundredth of
reading them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from rag_assets.errors import ModelUnavailable
from rag_assets.store.canonical import fingerprint

TOKENIZER_FILE = "tokenizer.json"


SLOW_TOKENIZER_FILES = (
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)


PICKLED_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


Rest = ParamSpec("Rest")


Found = TypeVar("Found")


State = tuple[tuple[str, int, int, int], ...]
"""Path, size, mtime and inode of each file and folder, sorted."""


_hashes: dict[tuple[str, int, int, int], str] = {}


def folder_state(folder: Path) -> State:
    """Return what differs when a file below a folder was changed, added or removed.

    A link to a file stands for that file; a folder that cannot be read has no files.
    """
    return tuple(sorted(_states(str(folder))))


def kept_while_unchanged(
    read: Callable[Concatenate[Path, Rest], Found],
) -> Callable[Concatenate[Path, Rest], Found]:
    """Keep what a function reads from a folder while the folder's state is the same.

    Its other arguments are hashable, and what it returns is not changed by anyone. What it raises
    is not kept. The state is looked at first: what changes while it reads is read the next time.
    """
    kept: dict[Hashable, tuple[State, Found]] = {}

    @wraps(read)
    def remembered(folder: Path, /, *args: Rest.args, **options: Rest.kwargs) -> Found:
        state = folder_state(folder)
        key = (str(folder), args, tuple(sorted(options.items())))
        known = kept.get(key)
        if known is None or known[0] != state:
            known = kept[key] = (state, read(folder, *args, **options))
        return known[1]

    return remembered


def _states(folder: str) -> list[tuple[str, int, int, int]]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(_state(entry))
                if entry.is_dir(follow_symlinks=False):
                    found += _states(entry.path)
    except OSError:
        return found
    return found


def _state(entry: os.DirEntry[str]) -> tuple[str, int, int, int]:
    try:
        status = entry.stat()
    except FileNotFoundError:  # a link to nothing
        status = entry.stat(follow_symlinks=False)
    return (entry.path, status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True)
class ModelFiles:
    """A model that is on disk.

    Attributes:
        name: the name that was asked for.
        path: the folder with the model's files.
        revision: commit at the hub, or version of the package; empty for a plain folder.
        weights_sha256: SHA-256 of the weights file; of all names and hashes when there are several.
        tokenizer_sha256: the same of ``tokenizer.json``, or of the vocabulary files without it.
        source: ``folder``, ``package`` or ``hub``.
    """

    name: str
    path: Path
    revision: str
    weights_sha256: str
    tokenizer_sha256: str
    source: str


def read_model_files(name: str, folder: Path, revision: str, source: str) -> ModelFiles:
    """Return the model in ``folder``, with its hashes.

    Raises:
        ModelUnavailable: the folder is not a model's, lacks safetensors weights or a tokenizer, or
            holds a part of the model as a pickle only.
    """
    return ModelFiles(name, folder, revision, *_hashes_of(folder), source)


@kept_while_unchanged
def _hashes_of(folder: Path) -> tuple[str, str]:
    """Return the SHA-256 of weights and of tokenizer."""
    weights = [file for part in module_folders(folder) for file in _weights(part)]
    if not weights:
        raise ModelUnavailable(
            f"{folder} holds no model: there is no *.safetensors file; give the folder that has "
            "modules.json or config.json, and model.safetensors"
        )
    tokenizers = _tokenizer_files(folder)
    if not tokenizers:
        raise ModelUnavailable(
            f"{folder} holds no tokenizer: there is no {TOKENIZER_FILE} and none of "
            f"{', '.join(SLOW_TOKENIZER_FILES)}"
        )
    return _hash_of(weights, folder), _hash_of(tokenizers, folder)


def is_complete(folder: Path) -> bool:
    """Return whether ``folder`` holds a model that can be loaded."""
    try:
        read_model_files("", folder, "", "")
    except ModelUnavailable:
        return False
    return True


def module_folders(folder: Path) -> list[Path]:
    """Return the folders of the modules that ``modules.json`` names; without it ``folder``.

    Raises:
        ModelUnavailable: ``modules.json`` is damaged or names a folder outside the model's.
    """
    parts = [folder / str(part.get("path", "")) for part in modules_of(folder)] or [folder]
    for part in parts:
        if not part.resolve().is_relative_to(folder.resolve()):
            raise ModelUnavailable(f"{folder / 'modules.json'}: path {part} leaves the folder")
    return list(dict.fromkeys(parts))


def modules_of(folder: Path) -> list[Mapping[str, Any]]:
    """Return what ``modules.json`` lists; nothing without such a file.

    Raises:
        ModelUnavailable: it is damaged.
    """
    modules = read_json(folder / "modules.json") or []
    if not isinstance(modules, list) or not all(isinstance(part, Mapping) for part in modules):
        raise ModelUnavailable(f"{folder / 'modules.json'}: must be a list of modules")
    return modules


def tokenizer_file(folder: Path) -> Path | None:
    """Return the ``tokenizer.json`` of a model folder, or None when it has none."""
    for part in (*module_folders(folder), folder):
        if (part / TOKENIZER_FILE).is_file():
            return part / TOKENIZER_FILE
    return None


def read_json(file: Path) -> object:
    """Return what a JSON file holds; None when there is no such file.

    Raises:
        ModelUnavailable: it is not JSON.
    """
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{file}: cannot be read as JSON: {error}") from error
    return content


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, remembered in this process by path, size, mtime and inode."""
    status = file.stat()
    key = (str(file), status.st_size, status.st_mtime_ns, status.st_ino)
    if key not in _hashes:
        with file.open("rb") as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]


def _weights(folder: Path) -> list[Path]:
    """Return the files that are loaded from a module's folder; refuse one with pickles only."""
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    files = sorted(folder.glob("*.safetensors"))
    pickles = sorted(file.name for pattern in PICKLED_WEIGHTS for file in folder.glob(pattern))
    if pickles and not files:
        raise ModelUnavailable(
            f"{folder} holds its weights as a pickle only ({pickles[0]}), which can run code; "
            "convert it to model.safetensors"
        )
    return files


def _tokenizer_files(folder: Path) -> list[Path]:
    file = tokenizer_file(folder)
    if file is not None:
        return [file]
    parts = list(dict.fromkeys((*module_folders(folder), folder)))
    candidates = [part / name for part in parts for name in SLOW_TOKENIZER_FILES]
    return [candidate for candidate in candidates if candidate.is_file()]


def _hash_of(files: Iterable[Path], folder: Path) -> str:
    hashes = {file.relative_to(folder).as_posix(): sha256(file) for file in files}
    return next(iter(hashes.values())) if len(hashes) == 1 else fingerprint(hashes)


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
