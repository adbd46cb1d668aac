"""``type: http``: a search behind an address: an engine, or a service of one's own.

Hits are found in the answer by JMESPaths (jmespath.org). An answer that is not what the paths say
is no empty ranking: its query fails, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from rag_assets.called.hits import ONE_OF_THREE, Hit, Rejected, described, hit_of, is_one_of_three
from rag_assets.called.http import HttpOptions, JmesPath, value_at
from rag_assets.retrieval.external.base import QueryResult, ServedRetriever


class HttpRetriever(HttpOptions, ServedRetriever):
    """A search that is asked by HTTP.

    In ``body`` and behind the ``?`` of ``url``, ``{query}`` and ``{k}`` stand for what is asked,
    ``{vector}`` for the query's vector by ``embedding``. ``hits`` is a JMESPath to the list of hits
    in an answer; ``id``, ``text``, ``document_id``, ``start``, ``end``, ``score`` and ``source``
    lead on from one hit.
    """

    type: Literal["http"]
    hits: JmesPath
    id: JmesPath | None = None
    text: JmesPath | None = None
    document_id: JmesPath | None = None
    start: JmesPath | None = None
    end: JmesPath | None = None
    score: JmesPath | None = None
    source: JmesPath | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not is_one_of_three(self._paths()):
            raise ValueError(ONE_OF_THREE)
        names = self.checked_places(["query", "vector"])
        if ("vector" in names) != (self.embedding is not None):
            raise ValueError("`embedding` and a '{vector}' in the request belong together")
        return self

    def _paths(self) -> dict[str, str]:
        paths = {name: getattr(self, name) for name in Hit._fields}
        return {name: path for name, path in paths.items() if path is not None}

    def asked_as(self) -> Mapping[str, Any]:
        return {**super().asked_as(), "headers": self.sent_headers}

    def read(self, answer: Any, k: int) -> QueryResult:  # noqa: ANN401
        self.check_error(answer)
        paths = self._paths()
        labels = {name: f"{name}: {path}" for name, path in paths.items()}
        hits: list[Hit] = []
        for rank, row in enumerate(_list_at(self.hits, answer)[:k], 1):
            place = f"hit {rank}: `"
            fields = {n: value_at(f"{place}{labels[n]}`", path, row) for n, path in paths.items()}
            hits.append(hit_of(fields, rank, labels))
        return QueryResult(hits)


def _list_at(path: str, answer: Any) -> list[Any]:  # noqa: ANN401
    value = value_at(f"`hits: {path}`", path, answer, is_needed=True)
    if not isinstance(value, list):
        raise Rejected(f"`hits: {path}` is {described(value)}; it must be a list")
    return value
