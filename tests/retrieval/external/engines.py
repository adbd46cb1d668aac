"""Small engines that read requests as the real ones do, strictly, and answer in their shape.

What they find is simple: passages by the words that they share with a query, or by the cosine of
vectors. Elasticsearch: search API 8.19. OpenSearch: 3.x. Weaviate: GraphQL of 1.3x. Vespa: query
API, default JSON result format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tests.retrieval.external.loopback import Reply, Request

Ranked = list[tuple[float, "Passage"]]
Encode = Callable[[Sequence[str]], Any]


class Passage(NamedTuple):
    """A paragraph of a document."""

    file: str
    start: int
    text: str


class Refused(Exception):
    """A request that the engine does not understand."""


def check(condition: object, problem: str) -> None:
    if not condition:
        raise Refused(problem)


@dataclass(frozen=True)
class Index:
    """Passages with their vectors; ``encode`` embeds passages."""

    passages: list[Passage]
    vectors: Any

    @classmethod
    def of(cls, documents: Mapping[str, str], encode: Encode) -> Index:
        passages = [
            Passage(file, found.start(), found[0])
            for file, text in documents.items()
            for found in re.finditer(r"^(?!#).+", text, re.M)
        ]
        return cls(passages, encode([passage.text for passage in passages]))

    def by_words(self, query: str) -> Ranked:
        wanted = set(re.findall(r"\w+", query.lower()))
        scores = [
            float(len(wanted & set(re.findall(r"\w+", p.text.lower())))) for p in self.passages
        ]
        return [pair for pair in self._ordered(scores) if pair[0] > 0]

    def by_vector(self, vector: object) -> Ranked:
        check(isinstance(vector, list) and len(vector) == self.vectors.shape[1], "wrong dimension")
        return self._ordered((self.vectors @ np.array(vector, dtype=np.float64)).tolist())

    def by_both(self, query: str, vector: object) -> Ranked:
        """Reciprocal rank fusion."""
        fused: dict[Passage, float] = {}
        for ranked in (self.by_words(query), self.by_vector(vector)):
            for rank, (_, passage) in enumerate(ranked, 1):
                fused[passage] = fused.get(passage, 0.0) + 1 / (60 + rank)
        return sorted(((s, p) for p, s in fused.items()), key=lambda pair: (-pair[0], pair[1]))

    def _ordered(self, scores: Sequence[float]) -> Ranked:
        pairs = zip(scores, self.passages, strict=True)
        return sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


def _only(value: Mapping[str, Any], *keys: str) -> None:
    check(set(value) == set(keys), f"unknown key in [{', '.join(value)}]")


def elasticsearch(index: Index) -> Callable[[Request], Reply]:
    """POST /manuals/_search with query, knn or retriever."""

    def ranked(body: Mapping[str, Any]) -> Ranked:
        size = body["size"]
        if "query" in body:
            _only(body, "size", "_source", "query")
            return index.by_words(body["query"]["match"]["text"])
        if "knn" in body:
            _only(body, "size", "_source", "knn")
            return index.by_vector(_knn(body["knn"]))[: body["knn"]["k"]]
        _only(body, "size", "_source", "retriever")
        rrf = body["retriever"]["rrf"]
        check(rrf["rank_window_size"] >= size, "[rank_window_size] must be at least [size]")
        standard, knn = rrf["retrievers"]
        query = standard["standard"]["query"]["match"]["text"]
        return index.by_both(query, _knn(knn["knn"]))

    return _search_api(ranked, "ApiKey es-key-0123456789")


def _knn(knn: Mapping[str, Any]) -> object:
    _only(knn, "field", "query_vector", "k", "num_candidates")
    check(knn["num_candidates"] >= knn["k"], "[num_candidates] cannot be less than [k]")
    check(knn["field"] == "embedding", f"field [{knn['field']}] does not exist in the mapping")
    return knn["query_vector"]


def opensearch(index: Index) -> Callable[[Request], Reply]:
    """POST /manuals/_search with a match, knn or hybrid query."""

    def ranked(body: Mapping[str, Any]) -> Ranked:
        _only(body, "size", "_source", "query")
        query = body["query"]
        if "match" in query:
            return index.by_words(query["match"]["text"])
        if "knn" in query:
            knn = query["knn"]["embedding"]
            return index.by_vector(knn["vector"])[: knn["k"]]
        match, knn = query["hybrid"]["queries"]
        return index.by_both(match["match"]["text"], knn["knn"]["embedding"]["vector"])

    answer = _search_api(ranked, "Basic b3BlcmF0b3I6aHVudGVyMg==")

    def with_pipeline(request: Request) -> Reply:
        is_hybrid = "hybrid" in request.body["query"]
        wanted = {"search_pipeline": "manuals-hybrid"} if is_hybrid else {}
        if request.parameters != wanted:
            return _es_error("illegal_argument_exception", "no such search pipeline")
        return answer(request)

    return with_pipeline


def _search_api(
    ranked: Callable[[Mapping[str, Any]], Ranked], authorization: str
) -> Callable[[Request], Reply]:
    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") != authorization:
            return _es_error("security_exception", "unable to authenticate", 401)
        try:
            check((request.method, request.path) == ("POST", "/manuals/_search"), "no such index")
            check(request.body["_source"] == ["text", "file"], "unknown field")
            found = ranked(request.body)[: request.body["size"]]
        except (Refused, KeyError, TypeError, ValueError) as error:
            return _es_error("parsing_exception", str(error))
        hits = [
            {
                "_index": "manuals",
                "_id": f"{passage.file}:{passage.start}",
                "_score": score,
                "_source": {"text": passage.text, "file": passage.file},
            }
            for score, passage in found
        ]
        total = {"value": len(hits), "relation": "eq"}
        most = hits[0]["_score"] if hits else None
        return Reply(
            {
                "took": 3,
                "timed_out": False,
                "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
                "hits": {"total": total, "max_score": most, "hits": hits},
            }
        )

    return answer


def _es_error(kind: str, reason: str, status: int = 400) -> Reply:
    cause = {"type": kind, "reason": reason}
    return Reply({"error": {"root_cause": [cause], **cause}, "status": status}, status)


_TEXT = r'"(?:[^"\\\n]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_VECTOR = r"\[[-+0-9.e, ]*\]"
_GET = re.compile(
    r"\{Get \{Manual\((?:"
    rf"bm25: \{{query: (?P<words>{_TEXT})\}}"
    rf"|nearVector: \{{vector: (?P<vector>{_VECTOR})\}}"
    rf"|hybrid: \{{query: (?P<both>{_TEXT}), vector: (?P<beside>{_VECTOR}), alpha: 0\.5\}}"
    r"), limit: (?P<limit>\d+)\)\s\{text file _additional \{(?P<extra>score|distance)\}\}\}\}\n"
)
"""What of GraphQL is understood: a query that breaks out of its literal is not."""


def weaviate(index: Index) -> Callable[[Request], Reply]:
    """POST /v1/graphql with bm25, nearVector or hybrid."""

    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") != "Bearer weaviate-key-0123456789":
            return Reply({"error": [{"message": "anonymous access not enabled"}]}, 401)
        found = _GET.fullmatch(request.body["query"])
        if request.path != "/v1/graphql" or set(request.body) != {"query"} or found is None:
            error = {"locations": [{"line": 1, "column": 7}], "message": "Syntax Error GraphQL"}
            return Reply({"data": None, "errors": [error]})
        if found["words"]:
            ranked = index.by_words(json.loads(found["words"]))
        elif found["vector"]:
            ranked = index.by_vector(json.loads(found["vector"]))
        else:
            ranked = index.by_both(json.loads(found["both"]), json.loads(found["beside"]))
        rows = [
            {
                "text": passage.text,
                "file": passage.file,
                "_additional": {"distance": 1 - score}
                if found["vector"]
                else {"score": str(score)},
            }
            for score, passage in ranked[: int(found["limit"])]
        ]
        return Reply({"data": {"Get": {"Manual": rows}}})

    return answer


_YQL = {
    "select text, file from manual where userInput(@text)": ("text",),
    "select text, file from manual where {targetHits: 100}nearestNeighbor(embedding, q)": (
        "input.query(q)",
    ),
    "select text, file from manual where userInput(@text) or "
    "({targetHits: 100}nearestNeighbor(embedding, q))": ("text", "input.query(q)"),
}


def vespa(index: Index) -> Callable[[Request], Reply]:
    """POST /search/ with YQL."""

    def answer(request: Request) -> Reply:
        body = request.body
        root: dict[str, Any] = {"id": "toplevel", "relevance": 1.0}
        names = _YQL.get(body["yql"])
        if request.path != "/search/" or names is None:
            message = "Could not create query from YQL: query:L1:1 no viable alternative"
            error = {"code": 4, "summary": "Invalid query parameter", "message": message}
            return Reply({"root": {**root, "fields": {"totalCount": 0}, "errors": [error]}}, 400)
        _only(body, "yql", "hits", "ranking", *names)
        values = [body[name] for name in names]
        if names == ("text",):
            ranked = index.by_words(values[0])
        elif len(names) == 1:
            ranked = index.by_vector(values[0])
        else:
            ranked = index.by_both(*values)
        children = [
            {
                "id": f"index:manuals/0/{number}",
                "relevance": score,
                "source": "manuals",
                "fields": {"text": passage.text, "file": passage.file},
            }
            for number, (score, passage) in enumerate(ranked[: body["hits"]])
        ]
        coverage = {"coverage": 100, "documents": 8, "full": True, "nodes": 1, "results": 1}
        root |= {"fields": {"totalCount": len(children)}, "coverage": coverage}
        return Reply({"root": {**root, **({"children": children} if children else {})}})

    return answer


def service(index: Index) -> Callable[[Request], Reply]:
    """A service of one's own: texts, or spans, as its answer."""

    def answer(request: Request) -> Reply:
        if request.headers.get("x-api-key") != "rag-key-0123456789":
            return Reply({"detail": "who are you"}, 401)
        if request.path == "/retrieve":
            check(request.headers["x-tenant"] == "manuals", "no such tenant")
            _only(request.body, "question", "top_k")
            hits = index.by_words(request.body["question"])[: request.body["top_k"]]
            return Reply({"contexts": list(map(_context, hits))})
        ranked = index.by_words(request.parameters["question"])
        spans = [
            {"document": p.file, "range": [p.start, p.start + len(p.text)]}
            for _, p in ranked[: int(request.parameters["top_k"])]
        ]
        return Reply({"spans": spans})

    return answer


def _context(pair: tuple[float, Passage]) -> dict[str, object]:
    score, passage = pair
    return {"content": passage.text, "metadata": {"source": passage.file}, "score": score}


ENGINES: Mapping[str, Callable[[Index], Callable[[Request], Reply]]] = {
    "Elasticsearch": elasticsearch,
    "OpenSearch": opensearch,
    "Weaviate": weaviate,
    "Vespa": vespa,
    "A service of your own": service,
}
"""Heading on the page -> its engine."""

VARIABLES = {
    "ELASTIC_API_KEY": "es-key-0123456789",
    "OPENSEARCH_BASIC": "b3BlcmF0b3I6aHVudGVyMg==",
    "WEAVIATE_API_KEY": "weaviate-key-0123456789",
    "RAG_API_KEY": "rag-key-0123456789",
}
"""Variable -> the credential that its engine wants."""
