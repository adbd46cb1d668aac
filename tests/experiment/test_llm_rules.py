"""Language models by name: which one is meant, and what it must say of its host."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import Client, clients, host_notes
from tests.experiment.conftest import Load, Problem
from tests.tiny_experiment import Tiny
from tests.walked_page import DOCS

LOCAL = "{model: a, base_url: 'http://127.0.0.1:1/v1', api_key_env: null}"
LARGE = "{model: b, base_url: 'https://e.org/v1', max_calls: 9}"


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "tiny").write()


WRONG = {
    "unknown": (
        f"llms: {{small: {LOCAL}, large: {LARGE}}}\n"
        "query_sets:\n  q: {strategy: hyde, llm: smal}\n",
        ":3: `query_sets.q.llm`: unknown model 'smal' (did you mean 'small'?); allowed: small, "
        "large",
    ),
    "none of several": (
        f"llms: {{small: {LOCAL}, large: {LARGE}}}\nquery_sets:\n  q: {{strategy: hyde}}\n",
        ":3: `query_sets.q`: needs a language model; name one of `llms`: `llm: small, large`",
    ),
    "none at all": (
        "query_sets: {q: {strategy: hyde}}\n",
        ":1: `query_sets.q`: needs a language model; add the key `llm`",
    ),
    "no host": (
        "llms:\n  small: {model: a, max_calls: 9}\n",
        ":2: `llms.small`: has no host; add `base_url: https://api.openai.com/v1`, or another one",
    ),
    "no limit": (
        "llms:\n  small: {model: a, base_url: 'https://me:secret@e.org:8/v1'}\n",
        ":2: `llms.small`: is at e.org:8: limit what may be sent, by `max_calls`, or "
        "`max_cost` with `prompt_price` and `completion_price`",
    ),
    "no address": (
        "llms:\n  small: {model: a, base_url: 'e.org', max_calls: 1}\n",
        ":2: `llms.small.base_url`: must be an address that begins with http:// or https://",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_models(problem: Problem, text: str, expected: str) -> None:
    assert problem(text) == expected


def test_a_name_is_no_part_of_what_is_computed(tiny: Tiny) -> None:
    here = {"model": "a", "base_url": "http://127.0.0.1:1/v1", "api_key_env": None}
    tiny.config["query_sets"] = {"q": {"strategy": "hyde"}}
    tiny.configure("bm25", query_set="q")

    def recipe(**config: object) -> str:
        tiny.config.pop("llm", None)
        tiny.config |= config
        tiny.write_config()
        pipeline = tiny.pipeline()
        (stage,) = (one for one in pipeline.stages() if one.name == "query_set_answers")
        (key,) = stage.keys(pipeline.experiment)
        return str(stage.config(pipeline, key))

    single = recipe(llm=here)
    tiny.config["query_sets"] = {"q": {"strategy": "hyde", "llm": "small"}}
    assert recipe(llms={"small": here}) == single
    assert recipe(llms={"small": {**here, "max_calls": 3, "timeout": 5}}) == single
    assert recipe(llms={"small": {**here, "model": "b"}}) != single


def test_hosts_that_today_s_experiments_do_not_name(tiny: Tiny) -> None:
    server = {"type": "rerank_api", "input": "bm25", "model": "m"}
    at = {"base_url": "https://me.org/v1"}
    window = {"type": "listwise", "input": "bm25", "model": "m"}
    tiny.config |= {
        "llm": {"model": "m"},
        "query_sets": {"q": {"strategy": "hyde"}},
        "retrievers": {
            "bm25": {"type": "bm25", "chunking": "whole", "query_set": "q"},
            "here": {**server, "base_url": "http://[::1]:8"},
            "bounded": {**server, **at, "max_calls": 3},
            "unbounded": {**server, **at},
            "window": {**window, "max_calls": 1},
            "vectors": {"type": "openai_embedding", "chunking": "whole", "model": "m"},
            "local": {**window, "base_url": "http://localhost:1/v1"},
        },
        "baseline": "bm25",
    }
    tiny.write_config()
    experiment = load_experiment(tiny.folder)
    openai = "https://api.openai.com/v1"
    assert clients(experiment) == [
        Client("llm", openai, False, False),
        Client("retrievers.bounded", "https://me.org/v1", True, True),
        Client("retrievers.unbounded", "https://me.org/v1", True, False),
        Client("retrievers.window", openai, False, True),
        Client("retrievers.vectors", openai, True, False),
    ]
    unnamed = (
        "texts are sent to api.openai.com, which the experiment does not name; the next version "
        f"will refuse it: add `base_url: {openai}`"
    )
    limit = (
        "gets requests without a limit; the next version will refuse it: add `max_calls`, or "
        "`max_cost` "
        "where there is one"
    )
    assert host_notes(clients(experiment)) == [
        f"llm: {unnamed}",
        f"llm: api.openai.com {limit}",
        f"retrievers.unbounded: me.org {limit}",
        f"retrievers.window: {unnamed}",
        f"retrievers.vectors: api.openai.com {limit}",
    ]


@pytest.mark.parametrize(
    ("llm", "notes"),
    [
        ({"type": "transformers", "model": "m"}, 0),
        ({"model": "m", "base_url": "http://127.0.0.1:1/v1"}, 0),
        ({"model": "m", "type": "openai", "max_calls": 5}, 0),
        ({"model": "m", "base_url": "https://e.org/v1"}, 1),
    ],
)
def test_what_needs_no_note(tiny: Tiny, llm: dict[str, object], notes: int) -> None:
    tiny.config |= {"llm": llm, "query_sets": {"q": {"strategy": "hyde"}}}
    tiny.write_config()
    assert len(host_notes(clients(load_experiment(tiny.folder)))) == notes


HEAD = """\
retrievers: {words: {type: bm25}, more: {type: tfidf}}
top_k: [1, 3]
generators: {spans: {type: extractive}, predicted: {type: file, path: predictions.json}}
metrics: [ndcg@5]
answers:
  a: """


WRONG_ANSWERERS = {
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
        ".order`: needs a retriever; this answerer has gold"
    ),
    "{generator: predicted, budget: 100}": (
        ".budget`: needs a context with units; this answerer has no retriever"
    ),
    "{generator: spans, context: none, top_k: [1]}": (
        ".top_k`: needs a retriever; this answerer has none"
    ),
    "{generator: spans, retriever: words, seed: 1}": (
        ".seed`: is only for context: random; this answerer has no retriever"
    ),
    "{generator: spans, context: gold, chunking: half}": (
        ".chunking`: unknown chunking 'half'; allowed: whole"
    ),
}


@pytest.fixture(autouse=True)
def predictions(folder: Path) -> None:
    (folder / "predictions.json").write_text("{}", encoding="utf-8")
    (folder / "app.py").write_text("def answer(question, contexts): return question\n")


@pytest.mark.parametrize("block", WRONG_ANSWERERS)
def test_a_wrong_answerer_is_one_line(problem: Problem, block: str) -> None:
    assert problem(HEAD + block) == f":6: `answers.a{WRONG_ANSWERERS[block]}"


def test_generators_need_their_file_model_and_prompt(problem: Problem, folder: Path) -> None:
    text = "generators: {p: {type: file, path: gone.json}}"
    assert problem(text).startswith(":1: `generators.p.path`: ")
    text = "generators: {w: {type: llm}}"
    assert problem(text) == (":1: `generators.w`: needs a language model; add the key `llm`")
    (folder / "p.txt").write_text("version: 1\n[user]\n{question}\n", encoding="utf-8")
    text = "llm: {type: transformers, model: m}\ngenerators: {w: {type: llm, prompt: p.txt}}"
    found = problem(text)
    assert found.startswith(":2: `generators.w.prompt`: ")
    assert "the prompt does not use it; write {context}" in found
    text = "generators: {w: {type: extractive, refuse: true}}"
    assert problem(text) == ":1: `generators.w`: refuse: needs model"
    text = "answer_metrics: {metrics: [answer_em, answer_f2]}"
    assert problem(text).startswith(
        ":1: `answer_metrics.metrics.1`: unknown metric of answers 'answer_f2' (did you mean "
        "'answer_f1'?); allowed: answer_em, answer_f1, abstained"
    )


def test_a_model_by_name(problem: Problem, load: Load) -> None:
    models = (
        "llms: {small: {base_url: 'http://127.0.0.1:1/v1', model: a},\n"
        "  large: {type: transformers, model: m}}\n"
        "generators: {w: {type: llm, llm: LARGE}}"
    )
    expected = ":3: `generators.w.llm`: unknown model 'larg' (did you mean 'large'?); allowed: "
    assert problem(models.replace("LARGE", "larg")) == expected + "small, large"
    assert load(models.replace("LARGE", "large")).config.llms["large"].type == "transformers"


def test_keys_are_name_and_cutoff_of_the_experiment(load: Load) -> None:
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
    experiment = load(HEAD + "{generator: spans, retriever: words}")
    assert experiment.top_k == (1, 3, 5)
    assert experiment.answerers["a"].top_k == (1, 3)


def test_gold_needs_units_and_labels(problem: Problem, load: Load, folder: Path) -> None:
    chunkings = "chunking: {one: {strategy: none}, two: {strategy: sentences}}\n"
    named = HEAD.replace("type: bm25", "type: bm25, chunking: one")
    named = named.replace("type: tfidf", "type: tfidf, chunking: two")
    block = "{generator: spans, context: gold}"
    assert problem(chunkings + named + block) == (
        ":7: `answers.a`: needs `chunking`, one of one, two"
    )
    only = load(HEAD + block)
    assert only.answerers["a"].chunking == next(iter(only.chunkings))
    for file in (folder / "qrels").glob("*.tsv"):
        file.unlink()
    text = HEAD.replace("metrics: [ndcg@5]\n", "") + "{generator: spans, context: gold}"
    assert problem(text) == (
        ":5: `answers.a.context`: gold is the evidence of a question, but the data has no labels"
    )


def test_the_block_of_the_documentation_loads(load: Load) -> None:
    block = (DOCS / "answers.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    both = "x: {type: tfidf}, bm25: {type: bm25}, hybrid: {type: rrf, inputs: [bm25, x]}"
    experiment = load(f"retrievers: {{{both}}}\n{block}")
    assert list(experiment.answer_cells) == [
        *("plain@1", "plain@3", "plain@5", "edges@5", "perfect@-", "alone@-", "chance@5"),
        "official@-",
        *("ours@1", "ours@3", "ours@5"),
    ]
