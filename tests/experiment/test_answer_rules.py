"""Answerers in an experiment.yaml: what they name is there, and nothing is said twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.experiment import Experiment
from tests.walked_page import DOCS

Load = Callable[[str | bytes], Experiment]
Problem = Callable[[str | bytes], str]

HEAD = """\
retrievers: {words: {type: bm25}, more: {type: tfidf}}
top_k: [1, 3]
generators: {spans: {type: extractive}, predicted: {type: file, path: predictions.json}}
metrics: [ndcg@5]
answers:
  a: """

ANSWERER_KEYS = "generator, retriever, context, chunking, top_k, order, budget, seed"

WRONG = {
    "{generator: span, retriever: words}": (
        ".generator`: unknown generator 'span' (did you mean 'spans'?); allowed: spans, predicted"
    ),
    "{generator: spans, retriever: word}": (
        ".retriever`: unknown retriever 'word' (did you mean 'words'?); allowed: words, more"
    ),
    "{generator: spans}": (
        "`: needs a context: the key `retriever`, or `context`, one of gold, none, random"
    ),
    "{generator: spans, retriever: words, context: none}": (
        ".context`: give retriever, or context: none, not both"
    ),
    "{generator: spans, context: random}": (
        ".context`: random draws as many units as a retriever returns; add the key `retriever`"
    ),
    "{generator: spans, retriever: words, top_k: [3, 5]}": (
        ".top_k`: 5 is not in the experiment's top_k; allowed: 1, 3"
    ),
    "{generator: spans, context: gold, order: edges}": (
        ".order`: is of the ranks of a retriever; this answerer has gold"
    ),
    "{generator: predicted, budget: 100}": (
        ".budget`: is of a context that has units; this answerer has no retriever"
    ),
    "{generator: spans, context: none, top_k: [1]}": (
        ".top_k`: is of what a retriever returns; this answerer has none"
    ),
    "{generator: spans, retriever: words, seed: 1}": (
        ".seed`: belongs to context: random; this answerer has no retriever"
    ),
    "{generator: spans, context: gold, chunking: half}": (
        ".chunking`: unknown chunking 'half'; allowed: whole"
    ),
}


@pytest.fixture(autouse=True)
def predictions(folder: Path) -> None:
    (folder / "predictions.json").write_text("{}", encoding="utf-8")


@pytest.mark.parametrize("block", WRONG)
def test_a_wrong_answerer_is_one_line(problem: Problem, block: str) -> None:
    assert problem(HEAD + block) == f":6: `answers.a{WRONG[block]}"


def test_a_file_that_is_not_there(problem: Problem) -> None:
    text = "generators: {p: {type: file, path: gone.json}}"
    assert problem(text).startswith(":1: `generators.p.path`: ")


def test_a_generator_that_asks_a_model_needs_one(problem: Problem) -> None:
    text = "generators: {w: {type: llm}}"
    assert problem(text) == (":1: `generators.w`: needs a language model; add the key `llm`")


def test_a_prompt_without_a_place_for_the_context(problem: Problem, folder: Path) -> None:
    (folder / "p.txt").write_text("version: 1\n[user]\n{question}\n", encoding="utf-8")
    text = "llm: {type: transformers, model: m}\ngenerators: {w: {type: llm, prompt: p.txt}}"
    found = problem(text)
    assert found.startswith(":2: `generators.w.prompt`: ")
    assert "the prompt has no place for it; write {context}" in found


def test_a_model_by_name(problem: Problem, load: Load) -> None:
    models = (
        "llms: {small: {base_url: 'http://127.0.0.1:1/v1', model: a},\n"
        "  large: {type: transformers, model: m}}\n"
        "generators: {w: {type: llm, llm: LARGE}}"
    )
    expected = ":3: `generators.w.llm`: unknown model 'larg' (did you mean 'large'?); allowed: "
    assert problem(models.replace("LARGE", "larg")) == expected + "small, large"
    assert load(models.replace("LARGE", "large")).config.llms["large"].type == "transformers"


def test_a_metric_of_answers_that_is_none(problem: Problem) -> None:
    text = "answer_metrics: {metrics: [answer_em, answer_f2]}"
    assert problem(text).startswith(
        ":1: `answer_metrics.metrics.1`: unknown metric of answers 'answer_f2' (did you mean "
        "'answer_f1'?); allowed: answer_em, answer_f1, abstained"
    )


def test_keys_are_name_and_cutoff(load: Load) -> None:
    text = (
        HEAD + "{generator: spans, retriever: words}\n"
        "  b: {generator: spans, retriever: more, top_k: [3], order: edges, budget: 50}\n"
        "  c: {generator: spans, context: gold}\n"
        "  d: {generator: spans, context: none}\n"
        "  e: {generator: spans, context: random, retriever: words, top_k: [1]}\n"
        "  f: {generator: predicted}\n"
        "  g: {generator: predicted, retriever: words, top_k: [1]}\n"
    )
    found = load(text).answer_cells
    assert list(found) == ["a@1", "a@3", "b@3", "c@-", "d@-", "e@1", "f@-", "g@1"]
    assert found["a@3"] == ("a", 3)
    assert found["c@-"] == ("c", None)


def test_a_cutoff_of_one_metric_is_none_of_an_answerer(load: Load) -> None:
    experiment = load(HEAD + "{generator: spans, retriever: words}")
    assert experiment.top_k == (1, 3, 5)
    assert experiment.answerers["a"].top_k == (1, 3)


def test_gold_needs_to_know_whose_units(problem: Problem, load: Load) -> None:
    chunkings = "chunking: {one: {strategy: none}, two: {strategy: sentences}}\n"
    named = HEAD.replace("type: bm25", "type: bm25, chunking: one")
    named = named.replace("type: tfidf", "type: tfidf, chunking: two")
    block = "{generator: spans, context: gold}"
    assert problem(chunkings + named + block) == (
        ":7: `answers.a`: needs `chunking`, one of one, two"
    )
    only = load(HEAD + block)
    assert only.answerers["a"].chunking == next(iter(only.chunkings))


def test_gold_needs_labels(problem: Problem, folder: Path) -> None:
    for file in (folder / "qrels").glob("*.tsv"):
        file.unlink()
    text = HEAD.replace("metrics: [ndcg@5]\n", "") + "{generator: spans, context: gold}"
    assert problem(text) == (
        ":5: `answers.a.context`: gold is the evidence of a question, and the data has no labels"
    )


def test_the_block_of_the_documentation_loads(load: Load) -> None:
    page = (DOCS / "answers.md").read_text(encoding="utf-8")
    block = page.split("```yaml\n")[1].split("```")[0]
    both = "x: {type: tfidf}, bm25: {type: bm25}, hybrid: {type: rrf, inputs: [bm25, x]}"
    experiment = load(f"retrievers: {{{both}}}\n{block}")
    assert list(experiment.answer_cells) == [
        *("plain@1", "plain@3", "plain@5", "edges@5", "perfect@-", "alone@-", "chance@5"),
        "official@-",
    ]


def test_only_a_model_refuses(problem: Problem) -> None:
    text = "generators: {w: {type: extractive, refuse: true}}"
    assert problem(text) == ":1: `generators.w`: refuse: belongs to model"
