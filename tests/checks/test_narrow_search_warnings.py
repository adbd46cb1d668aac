from __future__ import annotations

from pathlib import Path

from rag_assets.checks.retriever_warnings import narrow_search_warnings
from tests.tiny_experiment import Tiny


def test_a_graph_of_which_more_is_read_than_it_gives(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    graph = {"type": "embedding", "chunking": "parts", "index": "hnsw"}
    tiny.configure("fits", **graph, hnsw={"ef_search": 5})
    tiny.configure("default", **graph)
    tiny.configure("short", **graph, hnsw={"ef_search": 4})
    tiny.configure("read", **graph, hnsw={"ef_search": 50})
    tiny.configure("fused", type="rrf", inputs=["read", "bm25"], candidates=100)
    assert narrow_search_warnings(tiny.pipeline().experiment) == [
        "short: hnsw.ef_search 4 is below 5, the largest top_k or candidates that reads it; no "
        "query has more than 4 results",
        "read: hnsw.ef_search 50 is below 100, the largest top_k or candidates that reads it; no "
        "query has more than 50 results",
    ]


def test_an_engine_of_which_more_is_read_than_it_gives(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    server = {"url": "http://127.0.0.1:9", "collection": "parts"}
    tiny.configure("server", type="qdrant", chunking="parts", ef_search=4, **server)
    search = {"url": "http://127.0.0.1:9/search?q={query}", "method": "GET", "hits": "h", "id": "i"}
    tiny.configure("own", type="http", k=3, revision="1", **search)
    told = [line.partition(",")[0] for line in narrow_search_warnings(tiny.pipeline().experiment)]
    assert told == [
        "server: ef_search 4 is below 5",
        "own: k 3 is below 5",
    ]
