"""Every function that runs while a stage computes is in the code version of that stage."""

from __future__ import annotations

import ast
import gc
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import rag_assets
from rag_assets.code_versions.closure import Closure
from rag_assets.code_versions.source_modules import Definition
from rag_assets.code_versions.versions import PACKAGE_DIR, CodeVersions
from rag_assets.engine.stage import Stage
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.pipeline.stages import STAGES
from rag_assets.testing.retrievers import DOCUMENTS, QUERIES
from tests.answers.answering import with_answers
from tests.assets.test_graph import use_everything
from tests.llm.server import says, serving
from tests.retrieval.test_contract import EvaluatedWithFiles
from tests.retrieval.test_contract import retrievers as retrievers
from tests.tiny_experiment import Tiny

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
    families = ("lexical", "embedding", "external", "fused", "reranked")
    assert runs == {f"{family}_runs" for family in families}
    assert sum(map(len, tracer.executed.values())) > 500
    assert missing(tracer, pipeline) == {}


def test_every_stage_of_an_experiment_with_labels(tmp_path: Path) -> None:
    check_is_covered(use_everything(Tiny(tmp_path / "tiny").write()))


def check_is_covered(tiny: Tiny, **ran: str) -> None:
    """Run an experiment; all that ran is in the closures, with a file of each of these stages."""
    tracer = Tracer()
    with tracer.watching():
        tiny.run()
    for stage, file in ran.items():
        assert file in {name for name, _ in tracer.executed[stage]}, stage
    assert {stage.name for stage in tiny.pipeline().stages()} - tracer.executed.keys() == set()
    assert missing(tracer, tiny.pipeline()) == {}


def written(text: str) -> str:
    """Filters, texts by which chunks are found, and answers."""
    if "filter" in text:
        return '{"query": "ferry", "filter": {"page": 1}}'
    return '["What?", "Why?"]' if "JSON" in text else "Of it."


def test_filters_and_texts_by_which_chunks_are_found_that_a_model_writes(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    kinds = ["text", "headings", "questions", "context", {"kind": "summary", "file": "s.jsonl"}]
    with serving(written) as server:
        tiny.config["llm"] = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        tiny.config["query_sets"] = {"parts": {"strategy": "self_query", "fields": ["page"]}}
        tiny.config["chunking"]["parts"]["index_texts"] = kinds
        tiny.write()
        row = {"document_id": "fares.md", "start": 0, "end": 40, "texts": ["prices"]}
        tiny.write_rows("s.jsonl", [row])
        tiny.replace("crew.md", "# Crew", "---\npage: 1\n---\n# Crew")
        tiny.configure("bm25", query_set="parts", filters=True)
        check_is_covered(
            tiny,
            index_texts="chunking/index_texts.py",
            query_set_answers="query_sets/strategies.py",
            query_filters="retrieval/search_steps_stage.py",
        )


def test_questions_that_a_model_writes(tmp_path: Path) -> None:
    tiny = Tiny(tmp_path / "tiny")
    asked = {"question": "What is 1 thing that everybody knows?", "answer": "this"}
    with serving(lambda text: json.dumps([asked, {"question": "No"}])) as server:
        tiny.config["llm"] = {"base_url": server.base_url, "model": "m", "api_key_env": None}
        tiny.config["questions"] = {"chunking": "parts", "chunks": 3, "spread": "heading"}
        check_is_covered(tiny.write(), qrels="labels/questions.py")


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
        check_is_covered(tiny)


PACKAGE = str(Path(rag_assets.__file__).parent)

ENGINE = (
    "pipeline/pipeline.py",
    "engine/rankings.py",
    "engine/latency_sample.py",
    "engine/measurements.py",
    "engine/recipe.py",
    "pipeline/plan.py",
    "code_versions/closure.py",
    "code_versions/versions.py",
    "progress.py",
    "errors.py",
    "input_files.py",
    "store/atomic.py",
    "store/content_cache.py",
)
"""What a stage asks through its context, what is measured, shown and kept: none is a result."""

Stack = list[tuple[FrameType, str | None]]
TraceFunction = Callable[[FrameType, str, Any], Any]
Place = tuple[str, int]
"""File below the package, and the first line of a function in it."""


class Tracer:
    """Collects the functions that run in each stage's ``compute``, ``compute_one`` and ``rank``.

    Of most functions only the call is seen; the ends of those that begin or leave a stage, too.
    """

    def __init__(self) -> None:
        self.executed: defaultdict[str, set[Place]] = defaultdict(set)
        self._roots: dict[CodeType, str] = {}
        for name, stage in STAGES.items():
            for method in ("compute", "compute_one", "rank"):
                for kind in type(stage).__mro__:
                    found = kind.__dict__.get(method)
                    if found is not None and kind is not Stage:  # its loop is the engine's
                        self._roots[found.__code__] = name
        self._places: dict[tuple[str, CodeType], Place | None] = {}
        self._local = threading.local()
        self._at_work: str | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        gc.collect()  # else something of an earlier test may be closed meanwhile
        before = sys.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        code = frame.f_code
        named = code.co_filename, code  # equal functions of two files are equal code
        if named not in self._places:
            self._places[named] = place_of(code)
        place = self._places[named]
        if place is None:
            return None
        stack: Stack = self._local.__dict__.setdefault("stack", [])
        here = stack[-1][1] if stack else self._at_work
        if code in self._roots:
            here = str(getattr(frame.f_locals.get("self"), "name", self._roots[code]))
        if here is not None and place[0] not in ENGINE:
            self.executed[here].add(place)
        if code not in self._roots and place[0] not in ENGINE:
            return None
        stack.append((frame, here if code in self._roots else None))
        self._tell(stack)
        frame.f_trace_lines = False
        return self._left

    def _left(self, frame: FrameType, event: str, _: object) -> TraceFunction:
        if event == "return":  # or a generator's yield; the next call enters again
            stack: Stack = self._local.__dict__.setdefault("stack", [])
            # a generator that is closed ends without a call before
            while any(one is frame for one, _ in stack):
                stack.pop()
            self._tell(stack)
        return self._left

    def _tell(self, stack: Stack) -> None:
        """What threads of a pool do, they do for what is at work in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._at_work = stack[-1][1] if stack else None


def place_of(code: CodeType) -> Place | None:
    """Return where a function of the library begins; None for all else."""
    if not code.co_filename.startswith(PACKAGE) or code.co_name == "<module>":
        return None
    return code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_firstlineno
