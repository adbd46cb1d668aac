"""Every function that runs while a stage computes is in the code version of that stage."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_assets.code_versions.closure import Closure
from rag_assets.code_versions.source_modules import Definition
from rag_assets.code_versions.versions import PACKAGE_DIR, CodeVersions
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.testing.retrievers import DOCUMENTS, QUERIES
from tests.answers.answering import with_answers
from tests.assets.test_graph import use_everything
from tests.code_versions.tracer import Place, Tracer
from tests.llm.server import says, serving
from tests.retrieval.test_contract import EvaluatedWithFiles, retrievers
from tests.tiny_experiment import Tiny

__all__ = ["retrievers"]

VERSIONS = CodeVersions()


def missing(tracer: Tracer, pipeline: Pipeline) -> Mapping[str, list[Place]]:
    """Return, for each stage, the functions that ran and are in none of its closures."""
    found = {}
    for name in list(tracer.executed):
        stage = STAGES[name]
        codes = {tuple(stage.code(pipeline.experiment, k)) for k in stage.keys(pipeline.experiment)}
        covered = {place for code in codes for place in lines(VERSIONS.closure(code))}
        outside = sorted(tracer.executed[name] - covered)
        if outside:
            found[name] = outside
    return found


def lines(closure: Closure) -> Iterator[Place]:
    """Yield all lines of the definitions of a closure."""
    for definition in closure.definitions:
        yield from lines_of(definition)


def lines_of(definition: Definition) -> Iterator[Place]:
    parts = definition.module.split(".")[1:]
    folder = Path(PACKAGE_DIR, *parts)
    is_package = (folder / "__init__.py").is_file()  # a folder may hold old bytecode alone
    file = "/".join(parts) + ("/__init__.py" if is_package else ".py")
    for node in definition.nodes:
        # The head of a class is what stands in it besides its methods.
        for part in node.body if isinstance(node, ast.ClassDef) else [node]:
            decorators = getattr(part, "decorator_list", [])
            first = min([part.lineno, *(one.lineno for one in decorators)])
            for line in range(first, (part.end_lineno or first) + 1):
                yield file, line


@pytest.fixture(scope="module")
def traced(
    retrievers: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tracer, Pipeline]:
    tracer = Tracer()
    few = {name: QUERIES[name] for name in ("plain", "empty", "none", "hostile")}
    root = tmp_path_factory.mktemp("traced")
    evaluated = EvaluatedWithFiles(root, retrievers, DOCUMENTS, few, top_k=(2,))
    with tracer.watching():
        evaluated.run()
    return tracer, evaluated.pipeline


@pytest.mark.slow
def test_every_retriever_type(traced: tuple[Tracer, Pipeline]) -> None:
    tracer, pipeline = traced
    runs = {name for name in tracer.executed if name.endswith("_runs")}
    families = ("lexical", "embedding", "imported", "external", "fused", "reranked")
    assert runs == {f"{family}_runs" for family in families}
    assert sum(map(len, tracer.executed.values())) > 500
    assert missing(tracer, pipeline) == {}


def test_every_stage_of_an_experiment_with_labels(tmp_path: Path) -> None:
    tiny = use_everything(Tiny(tmp_path / "tiny").write())
    tracer = Tracer()
    with tracer.watching():
        tiny.run()
    pipeline = tiny.pipeline()
    used = {stage.name for stage in pipeline.stages()}
    assert used - tracer.executed.keys() == set()
    assert missing(tracer, pipeline) == {}


def test_filters_that_a_model_writes(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    with serving(lambda text: '{"query": "ferry", "filter": {"page": 1}}') as server:
        tiny.config["llm"] = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        tiny.config["query_sets"] = {"parts": {"strategy": "self_query", "fields": ["page"]}}
        tiny.write()
        tiny.replace("crew.md", "# Crew", "---\npage: 1\n---\n# Crew")
        tiny.configure("bm25", query_set="parts", filters=True)
        tracer = Tracer()
        with tracer.watching():
            tiny.run()
    own = ("document_fields", "query_set_answers", "written_filters", "query_sets", "lexical_runs")
    assert set(own) <= tracer.executed.keys()
    files = {file for name in own for file, _ in tracer.executed[name]}
    assert {"query_sets/rewriting.py", "retrieval/search_steps_stage.py"} <= files
    assert missing(tracer, tiny.pipeline()) == {}


def test_scores_that_fall_with_age(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny").write()
    tiny.replace("crew.md", "# Crew", "---\ndate: 2026-01-31\n---\n# Crew")
    tiny.configure("bm25", recency={"half_life": "90d"})
    tiny.configure("shallow", recency={"half_life": "1y", "now": "2026"})
    tracer = Tracer()
    with tracer.watching():
        tiny.run()
    weighs = {
        "recency_factors": "retrieval/recency.py",
        "lexical_runs": "retrieval/unit_ranking.py",
        "fused_runs": "retrieval/recency.py",
    }
    for name, file in weighs.items():
        assert file in {executed for executed, _ in tracer.executed[name]}


def test_texts_by_which_chunks_are_found(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    kinds = ["text", "headings", "questions", "context", {"kind": "summary", "file": "s.jsonl"}]
    with serving(lambda text: '["What?", "Why?"]' if "JSON" in text else "Of it.") as server:
        tiny.config["llm"] = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        tiny.config["chunking"]["parts"]["index_texts"] = kinds
        tiny.write()
        row = {"document_id": "fares.md", "start": 0, "end": 40, "texts": ["prices"]}
        tiny.write_rows("s.jsonl", [row])
        tracer = Tracer()
        with tracer.watching():
            tiny.run()
    assert "chunking/index_texts.py" in {file for file, _ in tracer.executed["index_texts"]}
    assert missing(tracer, tiny.pipeline()) == {}


def test_questions_that_a_model_writes(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    asked = {"question": "What is 1 thing that everybody knows?", "answer": "this"}
    with serving(lambda text: json.dumps([asked, {"question": "No"}])) as server:
        tiny.config["llm"] = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        questions = {"chunking": "parts", "chunks": 3, "spread": "heading", "reviewed": "sheet.csv"}
        tiny.config["questions"] = {**questions, "filter": {"page": 1}}
        tiny.write()
        tiny.replace("crew.md", "# Crew", "---\npage: 1\n---\n# Crew")
        columns = "keep,question,answer,quote,document_id,start,end,chunk_id,query_id,source"
        (tiny.folder / "sheet.csv").write_text(f"{columns}\nno,a,b,c,d,0,1,e,gen-1,m\n")
        tracer = Tracer()
        with tracer.watching():
            tiny.run()
    own = ("generated_questions", "queries", "qrels")
    assert set(own) <= tracer.executed.keys()
    assert ("labels/question_tables.py") in {f for f, _ in tracer.executed["qrels"]}
    assert missing(tracer, tiny.pipeline()) == {}


def test_every_stage_generator_and_judge_of_answers(tmp_path: Path) -> None:
    tiny = with_answers(Tiny(tmp_path / "tiny").write(), split={"dev": 0.5, "seed": 0})
    place = {"document_id": "fares.md", "start": 0, "end": 49}
    recorded = [
        {"query_id": "q1", **place, "reply": "##final score: 2", "grade": 1},
        {"query_id": "q1", "answer": "10 crowns", "correct": True},
    ]
    tiny.write_rows("verdicts.jsonl", recorded)
    with serving(lambda text: "40 crowns [1]") as server:
        server.on("ferry", says("##final score: 1"))
        model = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        tiny.config["llms"] = {"near": model}
        tiny.config["generators"] |= {
            "spans": {"type": "extractive"},
            "writer": {"type": "llm", "llm": "near", "window": 50},
        }
        for name in ("spans", "writer"):
            tiny.config["answers"][name] = {"generator": name, "retriever": "bm25", "budget": 30}
        tiny.config["judges"] = {
            "strict": {"type": "llm", "llm": "near"},
            "theirs": {"type": "recorded", "path": "verdicts.jsonl"},
            "floor": {"type": "words"},
        }
        tiny.write_config()
        tracer = Tracer()
        with tracer.watching():
            tiny.run()
    used = {stage.name for stage in tiny.pipeline().stages()}
    assert used - tracer.executed.keys() == set()
    assert missing(tracer, tiny.pipeline()) == {}
