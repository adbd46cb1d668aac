"""Every wrong experiment.yaml gives one line: file, line, key, what was found, what is allowed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.errors import ConfigError
from rag_assets.evaluation.metric_names import MEASURES as ALL_MEASURES
from rag_assets.experiment import load_experiment
from rag_assets.experiment.names import NAME_RULE
from rag_assets.retrieval.lexical.analyzers import ANALYZERS
from rag_assets.retrieval.registry import RETRIEVER_TYPES
from tests.experiment.conftest import Problem

TOP_KEYS = (
    "name, dataset, chunking, questions, query_sets, llm, llms, retrievers, generators, answers, "
    "answer_metrics, judges, answer_labels, nuggets, passage_labels, judgments_log, online, "
    "top_k, metrics, "
    "primary, baseline, "
    "split, weight, statistics, measurements, context, checks, floors, filters, "
    "schedule, deps, compute"
)
TYPES = ", ".join(RETRIEVER_TYPES)
ANALYZER_NAMES = ", ".join(("auto", *ANALYZERS))
TWO = "x: {type: bm25}, y: {type: bm25}"
MEASURES = ", ".join(ALL_MEASURES)

SHAPE = {
    "unknown key": (
        "top_k: [1]\nnaem: x\n",
        f":2: `naem`: unknown key 'naem' (did you mean 'name'?); allowed: {TOP_KEYS}",
    ),
    "unknown type": (
        "retrievers:\n  a:\n    type: bn25\n",
        f":3: `retrievers.a.type`: unknown type 'bn25' (did you mean 'bm25'?); allowed: {TYPES}",
    ),
    "no type": (
        "retrievers:\n  a: {k1: 1}\n",
        ":2: `retrievers.a`: needs the key 'type', one of " + TYPES,
    ),
    "unknown strategy": (
        "chunking:\n  a: {strategy: nane}\n",
        ":2: `chunking.a.strategy`: unknown strategy 'nane' (did you mean 'none'?); "
        "allowed: none, recursive, fixed, markdown, sentences, semantic, parent",
    ),
    "missing key": (
        f"retrievers:\n  {'f: {type: rrf}'}\n",
        ":2: `retrievers.f`: needs the key 'inputs'",
    ),
    "retriever is empty": (
        "retrievers:\n  a:\n",
        ":2: `retrievers.a`: must be a mapping of keys to values; found None",
    ),
    "misspelt key of a feedback": (
        "retrievers: {a: {type: bm25, expand: {type: rm3, term: 1}}}\n",
        ":1: `retrievers.a.expand.term`: unknown key 'term' (did you mean 'terms'?); allowed: "
        "type, documents, terms, original_weight",
    ),
    "k1 is a text": (
        "retrievers: {a: {type: bm25, k1: x}}\n",
        ":1: `retrievers.a.k1`: should be a valid number; found 'x'",
    ),
    "k1 is infinite": (
        "retrievers: {a: {type: bm25, k1: .inf}}\n",
        ":1: `retrievers.a.k1`: should be a finite number; found inf",
    ),
    "unknown analyzer": (
        "retrievers: {a: {type: bm25, analyzer: klingon}}\n",
        ":1: `retrievers.a.analyzer`: unknown analyzer 'klingon'; allowed: " + ANALYZER_NAMES,
    ),
    "k1 of a weighting without": (
        "retrievers: {a: {type: tfidf, weighting: raw, k1: 1}}\n",
        ":1: `retrievers.a.k1`: k1 is only for weighting saturated, not for raw",
    ),
    "candidates are a text": (
        f"retrievers: {{{TWO}, f: {{type: rrf, inputs: [x, y], candidates: all}}}}\n",
        ":1: `retrievers.f.candidates`: should be a valid integer or should be 'top_k'; "
        "found 'all'",
    ),
    "split in two ways": (
        "split:\n  field: fold\n  seed: 1\n",
        ":1: `split`: give field, or dev and seed, not both",
    ),
    "unknown cluster": (
        "statistics: {cluster: documents}\n",
        ":1: `statistics.cluster`: must be none, document or query.<field>; found 'documents'",
    ),
    "top_k is 0": (
        "top_k: [3, 0]\n",
        ":1: `top_k.1`: should be greater than or equal to 1; found 0",
    ),
    "top_k is a fraction": (
        "top_k: [1.5]\n",
        ":1: `top_k.0`: should be a valid integer; found 1.5",
    ),
    "top_k is empty": ("top_k: []\n", ":1: `top_k`: needs 1 or more items; found []"),
    "top_k beyond 32 bits": (
        "top_k: [2147483648]\n",
        ":1: `top_k.0`: should be less than or equal to 2147483647; found 2147483648",
    ),
    "a long value is cut": (
        f"top_k: {'x' * 200}\n",
        f":1: `top_k`: must be a list; found '{'x' * 79}...",
    ),
}

BETWEEN_KEYS = {
    "unknown input": (
        "retrievers:\n  bm25: {type: bm25}\n  f:\n    type: rrf\n    inputs:\n"
        "      - bm25\n      - bm26\n",
        ":7: `retrievers.f.inputs.1`: unknown retriever 'bm26' (did you mean 'bm25'?); "
        "allowed: bm25, f",
    ),
    "duplicate input": (
        "retrievers: {x: {type: bm25}, f: {type: rrf, inputs: [x, x]}}\n",
        ":1: `retrievers.f.inputs.1`: 'x' appears twice; each input is fused once",
    ),
    "one input": (
        "retrievers: {x: {type: bm25}, f: {type: rrf, inputs: [x]}}\n",
        ":1: `retrievers.f.inputs`: needs 2 or more items; found ['x']",
    ),
    "cycle": (
        "retrievers:\n  x: {type: bm25}\n  a: {type: rrf, inputs: [x, b]}\n"
        "  b: {type: rrf, inputs: [a, x]}\n",
        ":3: `retrievers.a.inputs`: is a cycle: a -> b -> a",
    ),
    "fused of fused": (
        f"retrievers: {{{TWO}, f: {{type: rrf, inputs: [x, y]}},\n"
        "  g: {type: rrf, inputs: [x, f]}}\n",
        ":2: `retrievers.g.inputs.1`: 'f' is itself a fused retriever; there are three "
        "levels: base (bm25, embedding, ...) -> fused (rrf, ...) -> reranked (of a base or fused "
        "one); a reranked one may be fused or reranked once more",
    ),
    "unknown chunking": (
        "chunking: {whole: {strategy: none}}\nretrievers:\n  a:\n    type: bm25\n"
        "    chunking: hole\n",
        ":5: `retrievers.a.chunking`: unknown chunking 'hole' (did you mean 'whole'?); "
        "allowed: whole",
    ),
    "overlap as large as a chunk": (
        "chunking:\n  a:\n    strategy: recursive\n    max_tokens: 10\n    overlap: 10\n",
        ":5: `chunking.a.overlap`: overlap 10 must be less than max_tokens 10",
    ),
    "baseline unknown": (
        "top_k: [1]\nbaseline: bm52\n",
        ":2: `baseline`: unknown retriever 'bm52' (did you mean 'bm25'?); "
        "allowed: bm25, minilm, hybrid, maxsim",
    ),
    "primary without cut-off": (
        "top_k: [3, 7]\nprimary: nDCG\n",
        ":2: `primary`: needs a cut-off, such as ndcg@7",
    ),
    "primary where lower is better": (
        "primary: fp@3\n",
        ":1: `primary`: fp@3 is better when lower, but the primary metric must be better "
        "when higher; use tp or recall instead",
    ),
    "primary unknown": (
        "primary: ndgc@3\n",
        f":1: `primary`: unknown metric 'ndgc@3' (did you mean 'ndcg'?); "
        f"allowed: {MEASURES}, each with or without @k",
    ),
    "metric unknown": (
        "metrics:\n  - map\n  - kappa\n",
        f":3: `metrics.1`: unknown metric 'kappa'; allowed: {MEASURES}, each with or without @k",
    ),
    "metric that needs no asking": (
        "metrics: [map, Judged@10]\n",
        ":1: `metrics.1`: judged is always in the leaderboard; remove it",
    ),
    "path with a NUL": (
        'dataset: {path: "a\\0b"}\n',
        ":1: `dataset.path`: 'a\\x00b' is not a path",
    ),
    "judge chunk over cut documents": (
        "dataset:\n  judge: chunk\nchunking:\n  whole: {strategy: none}\n"
        "  parts: {strategy: recursive}\nretrievers: {a: {type: bm25, chunking: whole}}\n",
        ":2: `dataset.judge`: chunk: the judged ids are ids of whole documents, but chunking "
        "'parts' cuts documents; use strategy none, or judge document or evidence",
    ),
}

BAD_NAMES = ["a/b", "Ab", "a..b", "..", "a|b", "", ".a", "-a", "a b", "ä", "a\n"]


def _aliases(opening: str, closing: str, first: str) -> str:
    """Return ten lines, each of which stands for nine of the one before."""
    lines = [f"a0: &a0 {first}"]
    lines += [
        f"a{n}: &a{n} {opening}{', '.join([f'*a{n - 1}'] * 9)}{closing}" for n in range(1, 10)
    ]
    return "\n".join(lines)


NOT_YAML: dict[str, tuple[str | bytes, str]] = {
    "open list": (
        "top_k: [1]\nname: [\n",
        ":3: is not valid YAML: expected the node content, but found '<stream end>'",
    ),
    "tab": (
        "top_k:\n\t- 1\n",
        ":2: is not valid YAML: found character '\\t' that cannot start any token",
    ),
    "unknown tag": (
        "top_k: [1]\nname: !foo x\n",
        ":2: is not valid YAML: could not determine a constructor for the tag '!foo'",
    ),
    "anchor in itself": (
        "a: &a [*a]\n",
        ":1: holds more than 50,000 values or 50 levels, aliases written out",
    ),
    "nested too deeply": (
        "a: " + "[" * 1000,
        ": is not valid YAML: nested too deeply, or an anchor contains itself",
    ),
    "aliases of aliases": (
        _aliases("[", "]", "x"),
        ":6: holds more than 50,000 values or 50 levels, aliases written out",
    ),
    "a number without end": (f"top_k: [{'1' * 5000}]\n", ":1: holds a number of 5,000 digits"),
    "a number beyond 64 bits": (
        f"chunking: {{a: {{strategy: recursive, max_characters: {10**22}}}}}\n",
        ":1: holds a number of 23 digits",
    ),
    "large": ("# x\n" * 70_000, ": has more than the 262,144 bytes that are allowed"),
    "list": ("# a comment\n- a\n", ":1: must be a mapping of keys to values"),
    "text": ("bm25\n", ":1: must be a mapping of keys to values"),
    "Latin-1": (
        "name: café\n".encode("latin-1"),
        ": is not UTF-8 text (invalid continuation byte)",
    ),
    "duplicate key": (
        "name: a\ntop_k: [1]\nname: b\n",
        ":3: `name`: occurs twice, first on line 1",
    ),
    "number as a key": (
        "retrievers:\n  1: {type: bm25}\n",
        ":2: the key 1 is read as int; quote it to make it a name",
    ),
    "list as a key": ("? [a]\n: b\n", ":1: keys must be plain text"),
}


NO_USE = {
    "server of a model in this process": (
        "llm: {type: transformers, model: m, timeout: 3, api_key_env: K}\n",
        ":1: `llm`: api_key_env, timeout: only for type: openai",
    ),
    "one price": (
        "llm: {model: m, prompt_price: 1}\n",
        ":1: `llm`: prompt_price and completion_price belong together; give both",
    ),
    "tokenizer where characters are counted": (
        "chunking: {a: {strategy: fixed, max_characters: 90, overlap: 0, tokenizer: x}}\n",
        ":1: `chunking.a.tokenizer`: is only for max_tokens; max_characters counts no tokens",
    ),
    "variants of the original query": (
        "retrievers: {a: {type: bm25, variants: max}}\n",
        ":1: `retrievers.a`: variants need a query_set",
    ),
}
"""Options that nothing would look at: each was accepted without a word."""

WRONG = {**SHAPE, **BETWEEN_KEYS, **NOT_YAML, **NO_USE}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG)
def test_one_line_says_what_is_wrong(problem: Problem, text: str | bytes, expected: str) -> None:
    assert problem(text) == expected


def test_a_language_that_a_prompt_has_no_place_for(problem: Problem, tmp_path: Path) -> None:
    prompt = "version: 1\n[user]\nRewrite {query}\n"
    (tmp_path / "own.txt").write_text(prompt, encoding="utf-8")
    block = f"strategy: rewrite, template: {tmp_path / 'own.txt'}, language: Danish"
    text = f"llm: {{model: m}}\nquery_sets: {{a: {{{block}}}}}\n"
    told = "the prompt does not use it; write {language} in "
    assert problem(text) == f":2: `query_sets.a.language`: {told}{tmp_path / 'own.txt'}"


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("section", ["retrievers", "chunking"])
def test_names_follow_the_rule(problem: Problem, name: str, section: str) -> None:
    body = "{type: bm25}" if section == "retrievers" else "{strategy: none}"
    quoted = name.replace("\n", "\\n")
    found = problem(f'{section}:\n  "{quoted}": {body}\n')
    assert found == f":2: `{section}.{name.strip()}`: {name!r} is not a name; allowed: {NAME_RULE}"


def test_name_of_the_experiment_follows_the_rule(problem: Problem) -> None:
    assert problem("name: My Data\n") == (
        f":1: `name`: 'My Data' is not a name; allowed: {NAME_RULE}"
    )
    long = "'xxxxxxxxxxxxxxxxxxxx'... has 300 characters; allowed: 100"
    assert problem(f"name: {'x' * 300}\n") == f":1: `name`: {long}"
    assert problem("name: 5\n") == ":1: `name`: should be a valid string; found 5"


def test_places_of_data_that_do_not_exist(problem: Problem, folder: Path) -> None:
    expected = f":2: `dataset.path`: {folder / 'nowhere'}: no such file or folder"
    assert problem("dataset:\n  path: nowhere\n") == expected
    expected = f":1: `dataset.subset`: {folder / 'qrels'}: no subset 'dev'; allowed: test"
    assert problem("dataset: {subset: dev}\n") == expected


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_yaml_that_is_a_fifo_or_a_device(folder: Path, make: Callable[[Path], None]) -> None:
    file = folder / "experiment.yaml"
    make(file)
    for path in (folder, file):
        with pytest.raises(ConfigError, match=r"yaml: cannot be read: a (FIFO|device), not a file"):
            load_experiment(path)


def test_yaml_that_is_a_link_to_nothing(folder: Path) -> None:
    (folder / "experiment.yaml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_experiment(folder)
