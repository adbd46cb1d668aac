"""The numbers of other tools, exactly: each computes its own metrics from the same lists."""

from __future__ import annotations

from rag_assets.evaluation.dialects.beir import BEIR
from rag_assets.evaluation.dialects.tools import AUTORAG, LLAMAINDEX, RAGAS, Dialect

DIALECTS: dict[str, Dialect] = {tool.name: tool for tool in (AUTORAG, LLAMAINDEX, BEIR, RAGAS)}
"""What ``--dialect`` takes -> the dialect."""
