"""From the configuration of a chunking to the function that cuts, and what that depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag_assets.chunking import fixed, markdown, none, parent, recursive, semantic, sentences
from rag_assets.chunking.pieces import Cutter
from rag_assets.chunking.semantic import Embed
from rag_assets.chunking.size import Size
from rag_assets.code_versions.closure import Root
from rag_assets.experiment.config import (
    ChunkingConfig,
    FixedChunking,
    MarkdownChunking,
    NoneChunking,
    ParentChunking,
    RecursiveChunking,
    SemanticChunking,
    SentencesChunking,
)
from rag_assets.models.encoder import Encoder
from rag_assets.models.model_names import resolve_model
from rag_assets.package_versions import version
from rag_assets.store.canonical import fingerprint

EmbedBy = Callable[[str], Embed]
"""``embed_by(model)`` gives what embeds texts by that model."""

Sized = RecursiveChunking | FixedChunking | MarkdownChunking


def _recursive(config: RecursiveChunking, _: EmbedBy) -> Cutter:
    return recursive.cutter(_size(config))


def _fixed(config: FixedChunking, _: EmbedBy) -> Cutter:
    return fixed.cutter(_size(config))


def _markdown(config: MarkdownChunking, _: EmbedBy) -> Cutter:
    return markdown.cutter(_size(config), max_level=config.max_level)


def _sentences(config: SentencesChunking, _: EmbedBy) -> Cutter:
    return sentences.cutter(
        sentences=config.sentences, overlap=config.overlap, language=config.language
    )


def _semantic(config: SemanticChunking, embed_by: EmbedBy) -> Cutter:
    return semantic.cutter(
        embed_by(config.model),
        percentile=config.percentile,
        buffer=config.buffer,
        language=config.language,
        limit=Size(config.max_tokens, 0, config.model) if config.max_tokens else None,
    )


def _parent(config: ParentChunking, embed_by: EmbedBy) -> Cutter:
    return parent.cutter(cutter(config.child, embed_by), cutter(config.parent, embed_by))


_CUTTERS: Mapping[type, Callable[[Any, EmbedBy], Cutter]] = {
    NoneChunking: lambda config, embed_by: none.cut,
    RecursiveChunking: _recursive,
    FixedChunking: _fixed,
    MarkdownChunking: _markdown,
    SentencesChunking: _sentences,
    SemanticChunking: _semantic,
    ParentChunking: _parent,
}

_LIBRARIES: Mapping[type, tuple[str, ...]] = {
    RecursiveChunking: ("semantic-text-splitter",),
    MarkdownChunking: ("markdown-it-py", "semantic-text-splitter"),
    SentencesChunking: ("sentencex",),
    SemanticChunking: (
        "numpy",
        "semantic-text-splitter",
        "sentence-transformers",
        "sentencex",
        "torch",
        "transformers",
    ),
}


NO_STRATEGY: Root = f"{__name__}:_CUTTERS[]"
"""Of the strategies, only those count that are named."""


def cutter(config: ChunkingConfig, embed_by: EmbedBy) -> Cutter:
    """Return the function that cuts as ``config`` says."""
    return _CUTTERS[type(config)](config, embed_by)


def code(config: ChunkingConfig) -> list[Root]:
    """Return the roots of the code that cuts."""
    inner = [config.child, config.parent] if isinstance(config, ParentChunking) else []
    names = dict.fromkeys(type(one).__name__ for one in (config, *inner))
    return [f"{__name__}:_CUTTERS[{name}]" for name in names]


def versions(config: ChunkingConfig) -> Mapping[str, str]:
    """Return the versions of the libraries, the tokenizer and the model that cut.

    Raises:
        ModelUnavailable: the tokenizer or the model cannot be had.
    """
    if isinstance(config, ParentChunking):
        parts = {"child": versions(config.child), "parent": versions(config.parent)}
        return {f"{part}.{name}": v for part, found in parts.items() for name, v in found.items()}
    found = {name: version(name) for name in _LIBRARIES.get(type(config), ())}
    tokenizer = _tokenizer(config)
    if tokenizer is not None:
        found["tokenizers"] = version("tokenizers")
        found["tokenizer_sha256"] = resolve_model(tokenizer).tokenizer_sha256
    if isinstance(config, SemanticChunking):
        found["encoder"] = fingerprint(Encoder(config.model).describe("document"))
    return found


def cuts_by_blocks(config: ChunkingConfig) -> bool:
    """Return whether a document is cut the same whatever else is cut with it."""
    if isinstance(config, ParentChunking):
        return config.child.by_blocks and config.parent.by_blocks
    return config.by_blocks


def indexes_headings(config: ChunkingConfig) -> bool:
    """Return whether the heading path of a chunk is indexed between title and text."""
    if isinstance(config, ParentChunking):
        return indexes_headings(config.child) or indexes_headings(config.parent)
    return isinstance(config, MarkdownChunking) and config.indexed == "title+heading+text"


def cutting(config: ChunkingConfig) -> Mapping[str, Any]:
    """Return the part of ``config`` that says how to cut, not what is indexed of a chunk."""
    inner = {"indexed"}
    others: Mapping[str, bool | set[str]] = {"indexed": True, "child": inner, "parent": inner}
    return config.model_dump(mode="json", exclude=others)


def _size(config: Sized) -> Size:
    if config.max_characters is not None:
        return Size(config.max_characters, config.overlap)
    if config.max_tokens is None:
        raise TypeError(f"{config.strategy} has no size")
    return Size(config.max_tokens, config.overlap, config.tokenizer)


def _tokenizer(config: ChunkingConfig) -> str | None:
    if isinstance(config, Sized):
        return _size(config).tokenizer
    if isinstance(config, SemanticChunking) and config.max_tokens is not None:
        return config.model
    return None
