"""``type: bm25``: lexical retrieval by BM25 over analysed words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator

from rag_assets.errors import UsageError
from rag_assets.lexical.bm25_variants import resolve_delta, resolve_variant
from rag_assets.lexical.index import build_index, engine_versions
from rag_assets.options import Number
from rag_assets.retrievers.analysed import AnalysedRetriever


class BM25(AnalysedRetriever):
    """Lexical retrieval: BM25 over analysed words.

    ``variant`` is the formula: with ``engine: bm25s`` ``lucene`` (the default), ``robertson``,
    ``atire``, ``bm25l`` or ``bm25plus``; with ``rank_bm25``, the reference implementation,
    ``okapi`` (its default), ``bm25l`` or ``bm25plus``. ``delta`` belongs to the last two, and is
    0.5 and 1 by default.
    """

    code_version: ClassVar[str] = "3"
    implementation: ClassVar[tuple[str, ...]] = (
        "rag_assets.lexical",
        "rag_assets.ordering",
        "rag_assets.retrievers.analysed",
    )

    type: Literal["bm25"]
    engine: Literal["bm25s", "rank_bm25"] = "bm25s"
    variant: str | None = Field(default=None, validate_default=True)
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)
    delta: Number | None = Field(default=None, validate_default=True)

    @field_validator("variant")
    @classmethod
    def _engine_computes_it(cls, variant: str | None, info: ValidationInfo) -> str | None:
        if "engine" not in info.data:  # refused already
            return variant
        try:
            return resolve_variant(info.data["engine"], variant)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @field_validator("delta")
    @classmethod
    def _variant_has_it(cls, delta: float | None, info: ValidationInfo) -> float | None:
        if not info.data.get("variant"):
            return delta
        try:
            return resolve_delta(info.data["variant"], delta)
        except UsageError as error:
            raise ValueError(str(error)) from error

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and the analyzer."""
        return engine_versions(self.engine, self.full_analyzer)

    def build(self, chunks: pa.Table, texts: Sequence[str], folder: Path) -> Mapping[str, Any]:
        """Analyse and index the texts."""
        return build_index(
            chunks.column("chunk_id").to_pylist(),
            texts,
            engine=self.engine,
            analyzer=self.full_analyzer,
            k1=self.k1,
            b=self.b,
            folder=folder,
            variant=self.variant,
            delta=self.delta,
        )
