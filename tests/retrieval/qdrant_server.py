"""Qdrant's own engine, which its client has in itself, behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.retrieval.external import loopback
from tests.retrieval.external.loopback import Reply, Request


def _rounded(answer: Any) -> Any:
    """Return points as JSON: a product of matrices rounds by place, a server's scores do not."""
    for point in answer.points:
        point.score = round(point.score, 6)
    return answer.model_dump(mode="json")


@contextmanager
def serving(engine: Any, key: str | None = None) -> Iterator[str]:
    """Serve the part of the REST interface that a search needs; a key is asked for if given."""
    from qdrant_client import models

    def answer(request: Request) -> Reply:
        name = request.path.split("/")[2]
        if request.headers.get("api-key") != key:
            return Reply("Forbidden", 403)
        if not engine.collection_exists(name):
            return Reply("Not Found", 404)
        if request.method == "GET":
            result = engine.get_collection(name).model_dump(mode="json")
        else:
            asked = [models.QueryRequest(**one) for one in request.body["searches"]]
            result = [_rounded(answer) for answer in engine.query_batch_points(name, asked)]
        return Reply({"result": result, "status": "ok", "time": 0.0})

    with loopback.serving(answer) as server:
        yield server.root
