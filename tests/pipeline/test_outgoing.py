"""What a plan says of servers on other machines, against sums that are written out here."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rag_assets.cli.main import main
from rag_assets.pipeline.outgoing import Outgoing
from rag_assets.query_sets.prompted import requests_for
from tests.planned import planned
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny

TITLES = {"fares": "Fares"}
AT = {"base_url": "https://e.org/v1", "api_key_env": None, "model": "m"}
PRICES = {"prompt_price": 2.0, "completion_price": 10.0}


@pytest.fixture
def asking(fresh: Tiny) -> Tiny:
    """The documents are chunks as they are, and the chunks are stored."""
    fresh.config["retrievers"] = {"bm25": {"type": "bm25", "chunking": "whole"}}
    fresh.config |= {"top_k": [2, 3], "primary": "recall@3", "metrics": ["recall"]}
    fresh.config["baseline"] = "bm25"
    fresh.write_config()
    fresh.run()
    return fresh


def lines(tiny: Tiny, **retrievers: dict[str, object]) -> list[Outgoing]:
    tiny.config["retrievers"] |= retrievers
    tiny.write_config()
    return list(planned(tiny).outgoing)


def sizes(tiny: Tiny) -> list[int]:
    """Bytes of the chunks with their titles, the longest first."""
    (artifact,) = tiny.stored("chunks", "whole")
    rows = tiny.pipeline().artifact(_chunks(tiny)).table().to_pylist()
    assert artifact.exists()
    return sorted((len(f"{r['title']}\n{r['text']}".encode()) for r in rows), reverse=True)


def _chunks(tiny: Tiny) -> object:
    from rag_assets.chunking.stage import chunks_key

    return chunks_key("whole")


def asked_bytes() -> int:
    return sum(len(query["text"].encode()) for query in QUERIES)
