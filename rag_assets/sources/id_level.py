"""Ids of another level: a chunk's id, or a file name without its end, where a document is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

_CHUNK_OF = (
    re.compile(r"(?P<document>.+)#\d+-\d+"),
    re.compile(r"(?P<document>.+?)[#:/_.\-]+(?:chunk|passage|part|node|p)?[#:_\-]*\d+", re.I),
)
"""Our own chunk ids, then those of other tools: ``doc_3``, ``doc-chunk-3``, ``doc::chunk_3``."""


class Meant(NamedTuple):
    """What an unknown id seems to be, in words, and the document that is probably meant."""

    level: str
    document_id: str


class IdLevels:
    """Recognises ids of another level among the ids of a corpus."""

    def __init__(self, document_ids: Iterable[str]) -> None:
        """Know the ids of all documents."""
        self._ids = frozenset(document_ids)

    def meant(self, unknown: str) -> Meant | None:
        """Return which document an unknown id probably means; None when it is not clear."""
        for pattern in _CHUNK_OF:
            chunk = pattern.fullmatch(unknown)
            if chunk is not None and chunk["document"] in self._ids:
                return Meant("the id of a chunk", chunk["document"])
        if unknown in self._by_stem:
            document = self._by_stem[unknown]
            return Meant("a file name without its end", document) if document else None
        if unknown in self._by_chunk:
            return Meant("the id of a document whose chunks are judged", self._by_chunk[unknown])
        return None

    @cached_property
    def _by_stem(self) -> dict[str, str | None]:
        """File name, with and without its folders, to document; None where several have it."""
        found: dict[str, str | None] = {}
        for document_id in self._ids:
            path = PurePosixPath(document_id)
            if path.suffix[1:].isalpha():
                for stem in {path.stem, path.with_suffix("").as_posix()}:
                    found[stem] = None if stem in found else document_id
        return found

    @cached_property
    def _by_chunk(self) -> dict[str, str]:
        """Document to its first chunk, where the corpus consists of chunks ``document#0-200``."""
        found: dict[str, str] = {}
        for chunk_id in sorted(self._ids):
            chunk = _CHUNK_OF[0].fullmatch(chunk_id)
            if chunk is not None:
                found.setdefault(chunk["document"], chunk_id)
        return found
