"""Searches behind HTTP in an evaluation: judged on evidence, asked once, failures no zeros."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rag_assets.cli import main
from rag_assets.evaluation.metrics_stage import summary_key
from rag_assets.models.encoder import Encoder
from rag_assets.report.latency import latency_rows
from rag_assets.report.result import EvaluationResult
from rag_assets.store.artifacts import ArtifactKey
from tests.retrieval.external.engines import VARIABLES, Index, elasticsearch
from tests.retrieval.external.loopback import Loopback, Reply, Request, serving
from tests.retrieval.external.test_http_recipes import RECIPES
from tests.tiny_experiment import DOCUMENTS, Tiny

pytest.importorskip("rag_assets.retrieval.external.stage", reason="needs the stage of searches")

RANKINGS = ArtifactKey.of("external_rankings", retriever="mine")
HITS = ArtifactKey.of("external_hits", retriever="mine")


def every_text(request: Request) -> Reply:
    """Answer each query by all documents as ids."""
    return Reply({"hits": [{"id": name} for name in DOCUMENTS]})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(every_text) as running:
        yield running


@pytest.fixture
def tiny(tmp_path: Path, server: Loopback, computed: Tiny) -> Tiny:
    """A search that is asked by HTTP, beside BM25."""
    tiny = Tiny(tmp_path / "tiny").start_from(computed)
    tiny.config["retrievers"] = {
        "mine": {
            "type": "http",
            "url": f"{server.root}/search",
            "body": {"q": "{query}", "n": "{k}"},
            "hits": "hits",
            "id": "id",
            "revision": "1",
            "retries": 0,
        },
        "bm25": tiny.config["retrievers"]["bm25"],
    }
    tiny.config |= {"baseline": "bm25", "measurements": {"latency_sample": 6}}
    return tiny.write()


def rag_assets(tiny: Tiny, *arguments: str, code: int = 0) -> str:
    """Run a command on the experiment."""
    where = [str(tiny.folder), "--store", str(tiny.settings.store)]
    result = CliRunner(env={"COLUMNS": "120"}).invoke(main, [*arguments, *where])
    assert result.exit_code == code, result.output
    return result.output


def facts(tiny: Tiny, key: ArtifactKey) -> dict[str, Any]:
    return dict(tiny.pipeline().artifact(key).manifest.facts)


def means(tiny: Tiny, top_k: int = 5) -> dict[str, Any]:
    rows = tiny.pipeline().artifact(summary_key("mine")).table().to_pylist()
    return next(row for row in rows if row["top_k"] == top_k)


def reasons(tiny: Tiny, key: ArtifactKey = HITS) -> dict[str, str]:
    return dict(tiny.pipeline().artifact(key).manifest.failures)


def test_an_index_with_chunks_of_its_own_is_judged_on_evidence(
    tiny: Tiny, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    encoder = Encoder(str(static_model))
    index = Index.of(DOCUMENTS, lambda texts: encoder.encode(texts, kind="document"))
    with serving(elasticsearch(index)) as server:
        for name in ("elastic_bm25", "elastic_hybrid"):
            options = dict(RECIPES[name][1])
            options["url"] = re.sub(r"^http://[^/]+", server.root, options["url"])
            if "embedding" in options:
                options["embedding"] = {"model": str(static_model)}
            tiny.configure(name, **options)
        del tiny.config["retrievers"]["mine"]
        tiny.configure("fused", type="rrf", inputs=["elastic_bm25", "bm25"], candidates=5)
        printed = rag_assets(tiny, "evaluate")
    assert all(name in printed for name in ("elastic_bm25", "elastic_hybrid", "bm25", "fused"))
    pipeline = tiny.pipeline()
    for name in ("elastic_bm25", "elastic_hybrid"):
        located = pipeline.artifact(ArtifactKey.of("external_hits", retriever=name))
        # Each passage stands once in its document.
        assert set(located.manifest.facts["located"]) == {"exact"}
        rows = pipeline.artifact(summary_key(name)).table().to_pylist()
        best = max(row["hit_rate"] for row in rows)
        assert best == 1.0  # each evidence is a paragraph, and so is each passage of the index
        assert {row["n_failed"] for row in rows} == {0}


def test_embedding_the_query_is_part_of_the_latency(
    tiny: Tiny, static_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every vector is in the cache, as in the second evaluation."""
    now = Encoder.encode_now

    def slowly(encoder: Encoder, texts: list[str], *, kind: Any) -> Any:
        time.sleep(0.05)
        return now(encoder, texts, kind=kind)

    monkeypatch.setattr(Encoder, "encode_now", slowly)
    body = {"v": "{vector}", "n": "{k}"}
    for revision in ("1", "2"):
        tiny.configure("mine", body=body, embedding={"model": str(static_model)}, revision=revision)
        rag_assets(tiny, "evaluate")
        result = EvaluationResult.current(tiny.pipeline().root)
        (mine,) = latency_rows(result, tiny.pipeline().experiment, ["mine"])
        assert 50 < float(str(mine["p50_ms"])) < 5_000


def test_a_credential_is_in_no_file(
    tiny: Tiny, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_KEY", "a-secret-0123456789")

    def answer(request: Request) -> Reply:
        told = request.headers["authorization"]
        if "dog" in request.body["q"]:
            return Reply({"message": f"no such thing for {told}"}, 400)
        return Reply({"hits": [{"id": "fares.md"}], "told": told})

    server.answer = answer
    tiny.configure("mine", headers={"authorization": "Bearer ${SEARCH_KEY}"})
    printed = rag_assets(tiny, "evaluate", code=3)
    assert server.received[0].headers["authorization"] == "Bearer a-secret-0123456789"
    assert "a-secret" not in printed
    files = [file for file in tiny.root.rglob("*") if file.is_file()]
    assert len(files) > 50
    assert [file for file in files if b"a-secret" in file.read_bytes()] == []


def closed(server: Loopback) -> None:
    server.answer = lambda request: Reply({}, 503)


def slow(server: Loopback) -> None:
    def answer(request: Request) -> Reply:
        server.stopping.wait(20)
        return every_text(request)

    server.answer = answer


def wrong_json(server: Loopback) -> None:
    server.answer = lambda request: Reply(b"<html>")


def wrong_shape(server: Loopback) -> None:
    server.answer = lambda request: Reply({"results": []})


def unknown_ids(server: Loopback) -> None:
    server.answer = lambda request: Reply({"hits": [{"id": "fares.md"}, {"id": "no.md"}]})


@pytest.mark.parametrize(
    ("becomes", "reason"),
    [
        (closed, "HTTP 503: Service Unavailable"),
        (slow, "no answer within 0.2 s"),
        (wrong_json, "the answer is not what the protocol says: it is no JSON"),
        (wrong_shape, "`hits: hits` matches nothing in an object with the keys results"),
        (unknown_ids, "the search returned the id 'no.md', which no chunk or document has"),
    ],
)
def test_a_server_that_fails_is_named_and_nothing_is_scored(
    tiny: Tiny, server: Loopback, becomes: Callable[[Loopback], None], reason: str
) -> None:
    becomes(server)
    tiny.configure("mine", timeout=0.2)
    printed = rag_assets(tiny, "evaluate", code=3)
    assert "failed on 6 of 6 queries" in printed
    found = reasons(tiny)
    assert len(found) == 6
    assert found["q1"] == reason
    own = means(tiny)
    assert (own["n_failed"], own["n_queries"]) == (6, 0)
    assert (own["hit_rate"], own["ndcg"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"hits": "hits.["}, "`retrievers.mine.hits`: 'hits.[' is not a JMESPath"),
        ({"headers": {"Cookie": "abc-1"}}, "`retrievers.mine.headers`: 'Cookie' holds a cred"),
        ({"id": None}, "`retrievers.mine`: a hit is one of three: `id`; `text`; or"),
        ({"revision": None}, "`retrievers.mine`: needs `revision`, since we cannot see what"),
        ({"top": 5}, "`retrievers.mine.top`: unknown key 'top'"),
        ({"embedding": {"model": "m", "prompt": "x"}}, "embedding.prompt`: unknown key 'prompt'"),
    ],
)
def test_a_wrong_option_is_named_with_its_line(
    tiny: Tiny, options: dict[str, Any], problem: str
) -> None:
    tiny.configure("mine", **options)
    if options.get("revision", "") is None:
        del tiny.config["retrievers"]["mine"]["revision"]
        tiny.write_config()
    printed = rag_assets(tiny, "validate", code=2)
    assert problem in printed
    assert re.search(r"experiment\.yaml:\d+: ", printed)
    assert "abc-1" not in printed
