"""``strategy: keywords``: the long words of a query, without the others."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pydantic import Field

from rag_assets.extend import ComputedQuerySet, Variants, variant_table


class Keywords(ComputedQuerySet):
    """The words of at least ``letters`` letters."""

    strategy: Literal["keywords"]
    letters: int = Field(default=5, ge=1, strict=True)

    def variants(self, queries: pa.Table) -> Variants:
        texts = {
            query: [" ".join(word for word in text.split() if len(word) >= self.letters)]
            for query, text in zip(
                queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True
            )
        }
        return Variants(variant_table(queries, texts), [f"{len(texts)} queries have keywords"])
