"""``expand``: what a retriever returns around its units, or adds to a query."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rag_assets.options import Number, Options


class WindowExpansion(Options):
    """Return with each unit the ``chunks`` units before and after it in its document."""

    type: Literal["window"]
    chunks: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1


class Rm3Expansion(Options):
    """Pseudo-relevance feedback: add words of the first chunks to the query, and search again.

    Of the first ``documents`` chunks the ``terms`` words that stand out most are added. The words
    of the query itself have the share ``original_weight`` of all weight.
    """

    type: Literal["rm3"]
    documents: Annotated[int, Field(ge=1, le=1000, strict=True)] = 10
    terms: Annotated[int, Field(ge=1, le=1000, strict=True)] = 10
    original_weight: Annotated[Number, Field(ge=0, le=1)] = 0.5
