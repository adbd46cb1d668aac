"""Who judges its own work is named with the path from there to the verdicts; nobody else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assets.checks.asset_checks import results_of
from rag_assets.checks.check import ERROR
from rag_assets.judges.llm import family, model_name
from rag_assets.judges.verdicts_stage import answer_verdicts_key, relevance_verdicts_key
from rag_assets.pipeline.circular_models import circular_uses
from rag_assets.pipeline.pipeline import Outcome
from rag_assets.pipeline.stages import STAGES
from tests.answers.answering import with_answers
from tests.llm.server import serving
from tests.tiny_experiment import QUERIES, Tiny

SERVER = "http://127.0.0.1:9/v1"
OWN, OTHER = "gpt-4o", "llama-3.1-8b"
OF_ANSWERS = answer_verdicts_key("strict")
OF_PASSAGES = relevance_verdicts_key("strict")
BM25 = {"type": "bm25", "chunking": "parts", "analyzer": "english"}
HYDE = {"bm25": {**BM25, "query_set": "guess"}}
RERANK = {"type": "rerank_api", "input": "bm25", "candidates": 3, "base_url": SERVER}
LISTWISE = {"type": "listwise", "input": "bm25", "candidates": 3, "base_url": SERVER}
WRITERS = {"mine": {"type": "llm", "llm": "own"}, "theirs": {"type": "llm", "llm": "other"}}


def made(root: Path, **changes: Any) -> Tiny:
    """An experiment of two models; the judge is the one that is called ``own``."""
    tiny = Tiny(root)
    tiny.config["retrievers"] = {"bm25": {**BM25}}
    llms = {
        name: {"base_url": SERVER, "model": model, "api_key_env": None}
        for name, model in {"own": OWN, "other": OTHER, "dated": f"openai/{OWN}-2024-08-06"}.items()
    }
    answers = {"read": {"generator": "predicted", "retriever": "bm25", "top_k": [3]}}
    judges = {"strict": {"type": "llm", "llm": "own", "depth": 3}}
    parts = {"llms": llms, "judges": judges, "answers": answers, **changes}
    return with_answers(tiny.write(), **parts)


def circles(tiny: Tiny, key: Any = OF_ANSWERS) -> list[str]:
    pipeline = tiny.pipeline()
    queries = pipeline.experiment.dataset.read_queries().table
    return circular_uses(pipeline.experiment, key, queries)


def answerer(generator: str) -> dict[str, Any]:
    own = {"plain": {"generator": generator, "retriever": "bm25", "top_k": [3]}}
    return {"generators": WRITERS, "answers": own}


def written_by(tiny: Tiny, model: str, tag: str = "generated") -> Tiny:
    own = {"tags": [tag], "source": f"{model} questions/1", "answers": ["10 crowns"]}
    tiny.write_rows("queries.jsonl", [{**row, **own} for row in QUERIES])
    return tiny


CIRCULAR: dict[str, tuple[dict[str, Any], Any, str, str]] = {
    "answers": (
        answerer("mine"),
        OF_ANSWERS,
        "judge strict uses gpt-4o, which also writes the answers of plain: ",
        "answers[answerer=plain@3] -> answer_verdicts[judge=strict]",
    ),
    "the same model by another name": (
        {
            "generators": {"dated": {"type": "llm", "llm": "dated"}},
            "answers": {"plain": {"generator": "dated", "context": "none"}},
        },
        OF_ANSWERS,
        "which also (as openai/gpt-4o-2024-08-06) writes the answers of plain: ",
        "answers[answerer=plain@-] -> answer_verdicts[judge=strict]",
    ),
    "hyde": (
        {"query_sets": {"guess": {"strategy": "hyde", "llm": "own"}}, "retrievers": HYDE},
        OF_PASSAGES,
        "which also writes the queries of guess: query_set_answers[query_set=guess] -> ",
        "lexical_runs[retriever=bm25",
    ),
    "rewritten queries below a fusion and answers": (
        {
            "query_sets": {"guess": {"strategy": "rewrite", "llm": "own"}},
            "retrievers": {
                **HYDE,
                "plain": {**BM25},
                "both": {"type": "rrf", "inputs": ["bm25", "plain"], "candidates": 10},
            },
            "answers": {"read": {"generator": "theirs", "retriever": "both", "top_k": [3]}},
            "generators": WRITERS,
        },
        OF_ANSWERS,
        "which also writes the queries of guess: ",
        "fused_runs[retriever=both",
    ),
    "a reranker": (
        {"retrievers": {"bm25": {**BM25}, "sorted": {**RERANK, "model": OWN}}},
        OF_PASSAGES,
        "which also reranks for sorted: ",
        "reranked_runs[retriever=sorted",
    ),
    "a listwise reranker, of which answers are made": (
        {
            "retrievers": {"bm25": {**BM25}, "sorted": {**LISTWISE, "model": f"openai/{OWN}"}},
            "answers": {"read": {"generator": "theirs", "retriever": "sorted", "top_k": [3]}},
            "generators": WRITERS,
        },
        OF_ANSWERS,
        "which also (as openai/gpt-4o) reranks for sorted: ",
        "answers[answerer=read@3] -> answer_verdicts[judge=strict]",
    ),
    "the experiment's own model": (
        {
            "llm": {"base_url": SERVER, "model": OWN, "api_key_env": None},
            "generators": {"mine": {"type": "llm"}},
            "answers": {"plain": {"generator": "mine", "context": "gold", "chunking": "parts"}},
            "judges": {"strict": {"type": "llm"}},
        },
        OF_ANSWERS,
        "which also writes the answers of plain: ",
        "answers[answerer=plain@-] -> answer_verdicts[judge=strict]",
    ),
}


@pytest.mark.parametrize("name", CIRCULAR)
def test_a_circle_is_named_with_its_path(tmp_path: Path, name: str) -> None:
    changes, key, text, path = CIRCULAR[name]
    (sentence,) = circles(made(tmp_path, **changes), key)
    assert text in sentence
    assert path in sentence
    assert sentence.endswith(f" -> {key}")


def test_who_wrote_the_questions_is_named(tmp_path: Path) -> None:
    tiny = written_by(made(tmp_path), f"openai/{OWN}")
    for key in (OF_ANSWERS, OF_PASSAGES):
        (sentence,) = circles(tiny, key)
        assert "which also (as openai/gpt-4o) wrote 6 of the 6 questions: queries -> " in sentence
    assert circles(written_by(tiny, OTHER)) == []
    assert circles(written_by(tiny, OWN, "read in a book")) == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        pytest.param(answerer("theirs"), OF_ANSWERS, id="another model answers"),
        pytest.param(answerer("mine"), OF_PASSAGES, id="answers are no part of passages"),
        pytest.param(
            {"generators": {**WRITERS, "predicted": {"type": "file", "path": "predictions.json"}}},
            OF_ANSWERS,
            id="its model writes no answerer",
        ),
        pytest.param(
            {"query_sets": {"guess": {"strategy": "hyde", "llm": "own"}}},
            OF_PASSAGES,
            id="nobody searches for its queries",
        ),
        pytest.param(
            {"retrievers": {"bm25": {**BM25}, "sorted": {**RERANK, "model": "gpt-4o-mini"}}},
            OF_PASSAGES,
            id="a smaller model",
        ),
        pytest.param(
            {**answerer("mine"), "judges": {"strict": {"type": "words"}}},
            OF_ANSWERS,
            id="no model judges",
        ),
    ],
)
def test_others_are_not_named(tmp_path: Path, changes: dict[str, Any], key: Any) -> None:
    assert circles(made(tmp_path, **changes), key) == []


def test_the_check_of_the_verdicts_fails(tmp_path: Path) -> None:
    with serving(lambda text: "##final score: 1") as server:
        tiny = made(tmp_path, **answerer("mine"))
        for one in tiny.config["llms"].values():
            one["base_url"] = server.base_url
        tiny.write_config()
        tiny.run()
    pipeline = tiny.pipeline()
    passed = {}
    for key in (OF_ANSWERS, OF_PASSAGES):
        outcome = Outcome(key, pipeline.artifact(key), reused=True, seconds=0.0)
        results = results_of(pipeline, STAGES[key.asset], [outcome])
        (result,) = [one for one in results if one.check.name == "judge_is_independent"]
        passed[key] = result.passed
        assert not result.blocks
        assert result.severity == ERROR
    assert passed == {OF_ANSWERS: False, OF_PASSAGES: True}


def test_names_of_models() -> None:
    same = ("gpt-4o", "openai/GPT-4o", "gpt-4o-2024-08-06", "gpt-4o-latest", "org/x/gpt-4o:free")
    assert {model_name(name) for name in same} == {"gpt-4o"}
    assert model_name("gpt-4o-mini") != model_name("gpt-4o")
    assert model_name("llama3:8b") != model_name("llama3:70b")
    families = {
        "gpt": ("openai/gpt-4o", "gpt-5-nano", "o3-mini", "chatgpt-4o-latest"),
        "claude": ("claude-3-5-sonnet-20241022", "anthropic/claude-opus-4"),
        "mistral": ("mixtral-8x7b", "mistralai/Mistral-7B-Instruct"),
        "llama": ("meta-llama/Llama-3.1-8B", "llama3:8b"),
        "gemini": ("gemini-2.0-flash", "google/gemma-2-9b"),
    }
    for name, members in families.items():
        assert {family(one) for one in members} == {name}
