"""All chunking strategies: our own, and those of packages (group ``rag_assets.chunkers``)."""

from __future__ import annotations

from rag_assets.chunking.chunker import Chunker
from rag_assets.plugins import Kind, members

KIND = Kind("strategy", "rag_assets.chunkers", (Chunker,), "strategy")

_OWN = {
    "none": "none:NoneChunking",
    "recursive": "recursive:RecursiveChunking",
    "fixed": "fixed:FixedChunking",
    "markdown": "markdown:MarkdownChunking",
    "sentences": "sentences:SentencesChunking",
    "semantic": "semantic:SemanticChunking",
    "parent": "parent:ParentChunking",
}
"""``strategy`` -> module of this package, and class, in the order in which people see them."""

CHUNKING_TYPES = members(KIND, {name: f"{__package__}.{place}" for name, place in _OWN.items()})
"""Every ``strategy``."""

CHILD_CHUNKING_TYPES = CHUNKING_TYPES.without("none", "parent")
"""What may cut the parents of ``strategy: parent``."""

PARENT_CHUNKING_TYPES = CHUNKING_TYPES.without("parent")
"""What may cut the documents into parents."""
