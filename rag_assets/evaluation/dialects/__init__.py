"""The numbers of other tools, exactly: each computes its own metrics from the same lists.

What they mean, and where they part, is in ``docs/dialects.md``.
"""

from __future__ import annotations

from rag_assets.evaluation.dialects.dialect import Dialect
from rag_assets.evaluation.dialects.tools import AUTORAG, BEIR, LLAMAINDEX, RAGAS

DIALECTS: dict[str, Dialect] = {tool.name: tool for tool in (AUTORAG, LLAMAINDEX, BEIR, RAGAS)}
"""What ``--dialect`` takes -> the dialect."""
