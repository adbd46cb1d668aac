"""``type: tfidf``: lexical retrieval by TF-IDF over analysed words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from rag_assets.code_versions.closure import Root
from rag_assets.options import Number
from rag_assets.package_versions import version
from rag_assets.retrieval.lexical.analysed_texts import AnalysedTexts
from rag_assets.retrieval.lexical.analyzers import analyzer_versions
from rag_assets.retrieval.lexical.index import engine_code, write_index
from rag_assets.retrieval.lexical.tfidf_engine import DEFAULT_K1, TfIdfEngine
from rag_assets.retrieval.lexical.word_retriever import AnalysedRetriever


class TfIdf(AnalysedRetriever):
    """Lexical retrieval: TF-IDF over analysed words.

    ``weighting: raw`` is the frequency times log10(N / df); ``length_normalised`` divides it by the
    words of the chunk; ``saturated`` takes f / (f + k1) for the frequency f, with ``k1`` 1.2 by
    default; ``sklearn`` is the cosine of scikit-learn's ``TfidfVectorizer``.
    """

    search_kind: ClassVar[str | None] = "tfidf"

    type: Literal["tfidf"]
    weighting: Literal["raw", "length_normalised", "saturated", "sklearn"] = "sklearn"
    k1: Number | None = Field(default=None, gt=0, validate_default=True)

    @field_validator("k1")
    @classmethod
    def _belongs_to_saturated(cls, k1: float | None, info: ValidationInfo) -> float | None:
        weighting = info.data.get("weighting", "saturated")
        if weighting == "saturated":
            return DEFAULT_K1 if k1 is None else k1
        if k1 is not None:
            raise ValueError(f"k1 belongs to weighting saturated, not to {weighting}")
        return k1

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the engine and the analyzer."""
        return {"numpy": version("numpy")} | analyzer_versions(self.full_analyzer)

    def code_roots(self) -> list[Root]:
        """Return the roots with those of the engine."""
        return [*super().code_roots(), *engine_code("tfidf")]

    def build_of(self, analysed: AnalysedTexts, folder: Path) -> Mapping[str, Any]:
        """Weight the words."""
        engine = TfIdfEngine.build(analysed.tokens, self.weighting, self.k1 or DEFAULT_K1)
        return write_index(analysed, "tfidf", engine, folder)
