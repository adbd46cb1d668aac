"""``type: bm25``: lexical retrieval by BM25 over analysed words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.errors import UsageError
from rag_assets.options import Number
from rag_assets.retrieval.lexical.analysed import AnalysedRetriever
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts
from rag_assets.retrieval.lexical.bm25_variants import (
    check_parameter,
    resolve_delta,
    resolve_variant,
)
from rag_assets.retrieval.lexical.engine import build_engine, check_engine, engine_code
from rag_assets.retrieval.lexical.index import (
    LexicalIndex,
    TermVectors,
    engine_versions,
    write_index,
)
from rag_assets.retrieval.lexical.rm3 import FeedbackSearcher
from rag_assets.retrieval.retriever import Rm3Expansion, Searcher, WindowExpansion

Expansion = Annotated[WindowExpansion | Rm3Expansion, Field(discriminator="type")]


class BM25(AnalysedRetriever):
    """Lexical retrieval: BM25 over analysed words.

    ``variant`` is the formula: with ``engine: builtin`` ``lucene`` (the default), ``robertson``,
    ``atire``, ``bm25l`` or ``bm25plus``; with ``rank_bm25``, the reference implementation,
    ``okapi`` (its default) or ``bm25plus``. ``delta`` belongs to ``bm25l`` and ``bm25plus``, and is
    0.5 and 1 by default. ``engine: tantivy`` has ``lucene_lossy`` and a fixed ``k1`` and ``b``, and
    needs its extra. ``expand: {type: rm3}`` searches again, with words of what is found first.
    """

    search_kind: ClassVar[str | None] = "bm25"

    type: Literal["bm25"]
    engine: Literal["builtin", "rank_bm25", "tantivy"] = "builtin"
    variant: str | None = Field(default=None, validate_default=True)
    k1: Number = Field(default=1.2, ge=0)
    b: Number = Field(default=0.75, ge=0, le=1)
    delta: Number | None = Field(default=None, validate_default=True)
    expand: Expansion | None = None  # type: ignore[assignment]

    @field_validator("engine")
    @classmethod
    def _engine_is_there(cls, engine: str) -> str:
        try:
            check_engine(engine)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return engine

    @field_validator("k1", "b")
    @classmethod
    def _engine_lets_it_be_chosen(cls, value: float, info: ValidationInfo) -> float:
        try:
            check_parameter(info.data.get("engine", ""), str(info.field_name), value)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return value

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

    @property
    def feedback(self) -> Rm3Expansion | None:
        """How queries grow; None: not at all."""
        return self.expand if isinstance(self.expand, Rm3Expansion) else None

    def index_options(self) -> Mapping[str, Any]:
        """Return the options of the index; for feedback it also holds the words of each chunk."""
        held = {"term_vectors": True} if self.feedback else {}
        return {**super().index_options(), **held}

    def search_config(self) -> Mapping[str, Any]:
        """Return the options of the search, with those of the feedback."""
        own = {"expand": self.feedback.model_dump(mode="json")} if self.feedback else {}
        return {**super().search_config(), **own}

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and the analyzer."""
        return engine_versions(self.engine, self.full_analyzer)

    def code_roots(self) -> list[Root]:
        """Return the roots with those of the engine."""
        return [*super().code_roots(), *engine_code(self.engine)]

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Weight the counts."""
        engine = build_engine(
            self.engine, analysed.counts, self.k1, self.b, self.variant, self.delta
        )
        held = self.feedback is not None
        return write_index(analysed, self.engine, engine, folder, term_vectors=held)

    def open(self, folder: Path) -> Searcher[Sequence[str]]:
        """Open the index."""
        if self.feedback is None:
            return super().open(folder)
        return FeedbackSearcher(LexicalIndex.load(folder), TermVectors.load(folder), self.feedback)
