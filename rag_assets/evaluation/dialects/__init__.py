"""The numbers of other tools, exactly: each computes its own metrics from the same lists.

One file a tool, with its formulas and their source. What they mean, and where they part, is in
``docs/dialects.md``.
"""

from __future__ import annotations

from rag_assets.evaluation.dialects.autorag import AutoRag
from rag_assets.evaluation.dialects.beir import Beir
from rag_assets.evaluation.dialects.dialect import Dialect
from rag_assets.evaluation.dialects.llamaindex import LlamaIndex
from rag_assets.evaluation.dialects.ragas import Ragas

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (AutoRag(), LlamaIndex(), Beir(), Ragas())
}
"""What ``--dialect`` takes -> the dialect."""

__all__ = ["DIALECTS", "Dialect"]
