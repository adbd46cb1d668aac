"""Contracts that members of each kind keep, as classes of tests to inherit.

A package that adds a chunker, a metric, a query set, a retriever, a fusion, a reranker or a format
has a test file with a subclass, which says in one fixture what is tested::

    from rag_assets.testing import ChunkerContract

    class TestLines(ChunkerContract):
        @pytest.fixture
        def options(self):
            return {"strategy": "lines"}

Our own members are held to the same. pytest is needed, and nothing else.
"""

from __future__ import annotations

import pytest

_MODULES = ("chunkers", "formats", "metrics", "query_sets", "retrievers")
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from rag_assets.testing.chunkers import ChunkerContract  # noqa: E402
from rag_assets.testing.formats import FormatContract  # noqa: E402
from rag_assets.testing.metrics import MetricContract  # noqa: E402
from rag_assets.testing.query_sets import QuerySetContract  # noqa: E402
from rag_assets.testing.retrievers import (  # noqa: E402
    FusionContract,
    RerankerContract,
    RetrieverContract,
)

__all__ = [
    "ChunkerContract",
    "FormatContract",
    "FusionContract",
    "MetricContract",
    "QuerySetContract",
    "RerankerContract",
    "RetrieverContract",
]
