"""What is asked of servers, prompts of models, and warnings before a run."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rag_assets.analysis.plan import plan_sheet
from rag_assets.answers.contexts_stage import answer_contexts_key
from rag_assets.checks.retriever_warnings import narrow_search_warnings, prompt_warnings
from rag_assets.chunking.stage import chunks_key
from rag_assets.engine.outgoing import Outgoing
from rag_assets.pipeline.plan import Plan
from rag_assets.pipeline.stages import STAGES
from tests.answers.answering import with_answers
from tests.llm.server import ordered, serving
from tests.static_model import save_static_model
from tests.tiny_experiment import DOCUMENTS, QUERIES, Tiny, planned

AT = {"base_url": "https://e.org/v1", "api_key_env": None, "model": "m"}
PRICES = {"prompt_price": 2.0, "completion_price": 10.0}
ASKED = sum(len(query["text"].encode()) for query in QUERIES)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The documents are chunks as they are, and the chunks are stored."""
    tiny = Tiny(tmp_path_factory.mktemp("outgoing") / "master")
    bm25 = {"type": "bm25", "chunking": "whole"}
    tiny.config |= {"retrievers": {"bm25": bm25}, "top_k": [2, 3], "primary": "ndcg@3"}
    tiny.write().run()
    return tiny


@pytest.fixture
def stored(master: Tiny, tmp_path: Path) -> Tiny:
    return master.copy_to(tmp_path / "stored")


def sizes(tiny: Tiny) -> list[int]:
    """Bytes of the chunks as they are indexed, the longest first."""
    rows = tiny.pipeline().artifact(chunks_key("whole")).table().to_pylist()
    assert len(rows) == 8
    return sorted((len(f"{row['title']}\n{row['text']}".encode()) for row in rows), reverse=True)


def outgoing(tiny: Tiny, **retrievers: Mapping[str, object]) -> list[Outgoing]:
    tiny.config["retrievers"] |= retrievers
    tiny.write_config()
    return list(planned(tiny).outgoing)


def test_variants(stored: Tiny) -> None:
    llm = {**AT, "max_cost": 1.5, **PRICES}
    stored.config |= {"llm": llm, "query_sets": {"q": {"strategy": "hyde", "max_tokens": 100}}}
    stored.configure("bm25", query_set="q")
    (line,) = outgoing(stored)
    assert (line.client, line.host) == ("llm", "e.org")
    assert (line.questions, line.requests, line.passages) == (6, 6, 0)
    assert (line.max_calls, line.max_cost) == (None, 1.5)
    answers = 6 * 100
    assert line.tokens is not None
    prompts = line.tokens - answers
    assert line.cost == pytest.approx((prompts * 2.0 + answers * 10.0) / 1e6, abs=1e-12)
    stored.config["query_sets"]["q"]["max_tokens"] = 200
    (longer,) = outgoing(stored)
    assert longer.tokens == line.tokens + 600


def test_embeddings(stored: Tiny) -> None:
    vectors = {
        "type": "openai_embedding",
        "chunking": "whole",
        **AT,
        "batch_size": 3,
        "document_prompt": "doc: ",
        "price": 0.5,
        "max_calls": 7,
    }
    (line,) = outgoing(stored, vectors=vectors)
    tokens = sum(sizes(stored)) + 8 * len("doc: ") + ASKED
    assert line.cost == pytest.approx(tokens * 0.5 / 1e6, abs=1e-15)
    assert replace(line, cost=None) == Outgoing(
        "retrievers.vectors",
        "e.org",
        questions=6,
        requests=3 + 2 + 1,  # the sample's query goes alone
        passages=8,
        tokens=tokens,
        max_calls=7,
    )


def test_a_search_is_asked_for_each_query(stored: Tiny) -> None:
    search = {"type": "http", "url": "https://e.org/search?index=a", "body": {"q": "{query}"}}
    search |= {"hits": "hits", "id": "id", "revision": "1"}
    (line,) = outgoing(stored, search=search)
    assert line == Outgoing("retrievers.search", "e.org", questions=6, requests=6, passages=0)


def test_rerankers(stored: Tiny) -> None:
    api = {"type": "rerank_api", "input": "bm25", **AT, "candidates": 5, "batch_size": 2}
    window = {"type": "listwise", "input": "bm25", **AT, "candidates": 5, "window": 3, "step": 2}
    by_server, by_windows = outgoing(
        stored, api=api, window={**window, "max_tokens": 50, "max_calls": 12, **PRICES}
    )
    longest = sizes(stored)
    assert by_server == Outgoing(
        "retrievers.api",
        "e.org",
        questions=6,
        requests=6 * 3,
        passages=6 * 5,
        tokens=6 * sum(longest[:5]) + 3 * ASKED,
    )
    # Five candidates are two windows of three.
    assert (by_windows.requests, by_windows.passages) == (6 * 2, 6 * 6)
    assert by_windows.max_calls == 12
    answers = 6 * 2 * 50
    assert by_windows.tokens is not None
    prompts = by_windows.tokens - answers
    assert prompts > 6 * 2 * sum(longest[:3]) + 2 * ASKED
    assert by_windows.cost == pytest.approx((prompts * 2.0 + answers * 10.0) / 1e6, abs=1e-12)


def test_what_is_not_known_yet(fresh: Tiny) -> None:
    api = {"type": "rerank_api", "input": "bm25", **AT, "candidates": 5}
    here = {**api, "base_url": "http://127.0.0.1:9"}
    vectors = {"type": "openai_embedding", "chunking": "parts", **AT}
    fresh.config |= {"primary": "ndcg@3", "top_k": [3]}
    fresh.config["query_sets"] = {"file": {"strategy": "file", "path": "variants.jsonl"}}
    vectors["query_set"] = "file"
    fresh.write_rows("variants.jsonl", [{"query_id": "q1", "text": "dogs"}])
    by_server, by_neighbour, by_vectors = sorted(
        outgoing(fresh, api=api, here=here, vectors=vectors), key=lambda one: one.client
    )
    assert (by_server.requests, by_server.passages) == (6, 30)
    assert replace(by_neighbour, client="", host="", is_local=False) == replace(
        by_server, client="", host=""
    )
    assert (by_vectors.requests, by_vectors.passages, by_vectors.tokens) == (None, 18, None)


def test_what_is_shown(stored: Tiny) -> None:
    api = {"type": "rerank_api", "input": "bm25", **AT, "candidates": 5}
    stored.config["retrievers"] |= {"api": api, "fast": {**api, "model": "n", "max_calls": 9}}
    stored.write_config()
    done = stored.command("plan", ".", columns=300)
    assert done.exit_code == 0, done.output
    tokens = 6 * sum(sizes(stored)[:5]) + ASKED
    amounts = f"at most: 6 requests, 6 questions, 30 passages, {tokens} tokens"
    assert f"to e.org (retrievers.api), {amounts}; no limit" in done.stdout
    assert f"to e.org (retrievers.fast), {amounts}; max_calls 9" in done.stdout
    warning = "warning: retrievers.api: e.org gets requests without a limit; the next version will"
    assert warning in done.stderr
    assert "retrievers.fast" not in done.stderr


def test_nothing_is_to_be_asked_where_all_is_stored() -> None:
    line = Outgoing("generators.mine", "this machine", is_local=True, questions=0, requests=0)
    given = Plan("tiny", (), (), outgoing=(line,))
    assert plan_sheet(given).notes[-1] == "to this machine (generators.mine), at most: nothing"


def test_answers(stored: Tiny) -> None:
    prompt = "version: 1\n[user]\n{context}\n{question}\n"
    (stored.root / "p.txt").write_text(prompt, encoding="utf-8")
    stored.config |= {
        "llms": {"far": {**AT, "max_calls": 50, **PRICES}},
        "generators": {"w": {"type": "llm", "llm": "far", "max_tokens": 10, "prompt": "../p.txt"}},
        "answers": {"a": {"generator": "w", "retriever": "bm25", "top_k": [2]}},
    }
    (before,) = outgoing(stored)
    assert (before.client, before.host, before.max_calls) == ("llms.far", "e.org", 50)
    assert (before.questions, before.requests, before.passages) == (6, 6, 12)
    assert before.tokens is None
    pipeline = stored.pipeline()
    for asset in ("passages", "passage_lists", "answer_contexts"):
        pipeline.materialize(asset, STAGES[asset].keys(pipeline.experiment))
    (line,) = outgoing(stored)
    n_units = pipeline.artifact(answer_contexts_key("a@2")).manifest.rows
    assert (line.questions, line.requests, line.passages) == (6, 6, n_units)
    assert line.tokens is not None
    prompts = line.tokens - 6 * 10
    assert prompts > ASKED
    assert line.cost == pytest.approx((prompts * 2.0 + 60 * 10.0) / 1e6, abs=1e-12)


def replied(text: str) -> str:
    """Return an answer to any of our prompts; every second verdict has no score."""
    if "##final score" in text:
        return "No idea." if len(text) % 2 else "Yes.\n##final score: 1"
    if re.search(r"^\[1\] ", text, re.MULTILINE) and "Query: " in text:
        return ordered(text)
    question = f"How much does number {zlib.crc32(text.encode())} cost?"
    return json.dumps([{"question": question, "answer": "ten"} if "answer" in text else question])


BM25 = {"type": "bm25", "chunking": "parts"}
RERANKER = {"type": "rerank_api", "input": "bm25", "batch_size": 2}
LISTWISE = {"type": "listwise", "input": "bm25", "window": 3, "step": 2}
SERVERS: dict[str, dict[str, Any]] = {
    "vectors": {"type": "openai_embedding", "chunking": "parts", "batch_size": 3},
    "deep": RERANKER | {"candidates": 350},
    "cut": RERANKER | {"candidates": "top_k"},
    "windows": LISTWISE | {"candidates": 350},
    "cut_windows": LISTWISE | {"candidates": "top_k"},
}
MODELS: dict[str, dict[str, Any]] = {
    "query_sets": {"rewrites": {"strategy": "hyde", "llm": "rewriter"}},
    "generators": {"w": {"type": "llm", "max_tokens": 20, "llm": "writer"}},
    "answers": {"a": {"generator": "w", "retriever": "bm25"}},
    "judges": {"strict": {"type": "llm", "depth": 4, "llm": "judge"}},
}
QUESTIONS = {"questions": {"chunking": "parts", "n": 1, "llm": "asker"}}
RETRIEVERS: dict[str, Any] = {
    "bm25": {**BM25},
    "whole": BM25 | {"chunking": "whole"},
    "varying": {"type": "rrf", "inputs": ["bm25", "whole"], "candidates": "top_k"},
}


@pytest.mark.parametrize(
    ("options", "servers"),
    [(MODELS, {}), (QUESTIONS, {}), ({}, SERVERS)],
    ids=["models", "questions", "servers"],
)
def test_no_model_is_asked_more_often_than_a_plan_tells(
    tmp_path: Path, options: dict[str, Any], servers: dict[str, dict[str, Any]]
) -> None:
    """At the first evaluation and after an edit, on this machine; each client asks its model."""
    tiny = with_answers(Tiny(tmp_path / "tiny").write(), generators={}, answers={})
    with serving(replied) as server:
        at = {"base_url": server.base_url, "api_key_env": None, "retries": 0}
        retrievers = RETRIEVERS | {
            name: {**own, **at, "model": name} for name, own in servers.items()
        }
        rewritten = {"hyde": BM25 | {"query_set": "rewrites"}} if options == MODELS else {}
        names = ("rewriter", "writer", "judge") if options == MODELS else ("asker",)
        tiny.config |= {"retrievers": retrievers | rewritten, "top_k": [2, 6], **options}
        tiny.config |= {"primary": "ndcg@6"}
        if options:
            tiny.config["llms"] = {name: {**at, "model": name} for name in names}
        if options == QUESTIONS:
            del tiny.config["generators"], tiny.config["answers"]
            for name in ("queries.jsonl", "judgments.jsonl"):
                (tiny.folder / name).unlink()
        tiny.write_config()
        expected = set(servers) or set(names)
        for edit in ("sails", "mans"):
            tiny.replace("crew.md", "sails", edit)
            before, lines = len(server.received), planned(tiny).outgoing
            tiny.run()
            sent = Counter(one.body["model"] for one in server.received[before:])
            told = {line.client.partition(".")[2]: line.requests for line in lines}
            assert set(told) == expected if edit == "sails" else set(sent) <= set(told)
            assert {name for name, n in sent.items() if n > (told[name] or 0)} == set()
        n_chunks = len(tiny.pipeline().artifact(chunks_key("parts")).table())
        if servers:
            deep = next(line for line in lines if line.client == "retrievers.deep")
            assert deep.passages == 7 * n_chunks < 7 * 350


def test_an_engine_of_which_more_is_read_than_it_gives(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path).write()
    server = {"url": "http://127.0.0.1:9", "collection": "parts"}
    tiny.configure("server", type="qdrant", chunking="parts", ef_search=4, **server)
    search = {"url": "http://127.0.0.1:9/search?q={query}", "method": "GET", "hits": "h", "id": "i"}
    tiny.configure("own", type="http", k=3, revision="1", **search)
    told = [line.partition(",")[0] for line in narrow_search_warnings(tiny.pipeline().experiment)]
    assert told == ["server: ef_search 4 is below 5", "own: k 3 is below 5"]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    model = save_static_model(tmp_path / "e5-small", [*DOCUMENTS.values(), "query passage"])
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.configure("asymmetric", type="embedding", chunking="parts", model=str(model))
    return tiny


def test_where_a_model_runs_without(tiny: Tiny) -> None:
    model = tiny.config["retrievers"]["asymmetric"]["model"]
    tiny.configure("late", type="maxsim", input="bm25", model=model, query_prompt="")
    tiny.configure("absent", type="embedding", chunking="parts", model="./absent/e5-base")
    tiny.configure(
        "served",
        type="openai_embedding",
        chunking="parts",
        model="intfloat/e5-base",
        base_url="http://127.0.0.1:9/v1",
        query_prompt="query: ",
    )
    # The vectors of its documents are its own: nothing is said of a prompt for them.
    search: dict[str, Any] = {"type": "http", "url": "http://127.0.0.1:9/search", "revision": "1"}
    search |= {"body": {"v": "{vector}"}, "hits": "hits", "id": "id"}
    tiny.configure("usual", **search, embedding={"model": model})
    tiny.configure("search", **search, embedding={"model": model, "query_prompt": ""})
    said = [
        line.split(" was trained with ") for line in prompt_warnings(tiny.pipeline().experiment)
    ]
    assert [(names.split("'")[1], rest) for names, rest in said] == [
        ("late", "'query: ' before every query; give it as query_prompt"),
        ("served", "'passage: ' before every document; give it as document_prompt"),
        ("search", "'query: ' before every query; give it as query_prompt"),
    ]
    assert "warning: retriever 'late': model '" in tiny.command("plan", ".", columns=200).stderr


def test_what_was_put_before_texts_is_said(tiny: Tiny) -> None:
    done = tiny.command("evaluate", ".", columns=200)
    assert done.exit_code == 0, done.output
    note = (
        "asymmetric: prompts: 'query: ' before every query (the table of known models), "
        "'passage: ' before every document (the table of known models)"
    )
    assert note in " ".join(done.stderr.split())
    page = (tiny.artifacts / "report.html").read_text(encoding="utf-8")
    assert note.replace("'", "&#39;") in page
