"""The tokenizer that counts the tokens of a context: of any model, without its weights."""

from __future__ import annotations

from pathlib import Path

from rag_assets.errors import ModelUnavailable
from rag_assets.models.hub import hub_tokenizer
from rag_assets.models.model_files import TOKENIZER_FILE, tokenizer_file
from rag_assets.models.model_names import DEFAULT_MODEL, resolve_model


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
    full_name = name if "/" in name else f"sentence-transformers/{name}"
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
