from __future__ import annotations

from collections.abc import Callable

import pytest

from rag_assets.experiment import Experiment
from rag_assets.experiment.grids import MAX_MEMBERS

Load = Callable[[str | bytes], Experiment]
Problem = Callable[[str | bytes], str]


def test_a_list_is_a_retriever_a_value(load: Load) -> None:
    text = "retrievers:\n  bm25: {type: bm25, k1: [0.9, 1.2], b: [0, 1.0]}\n  x: {type: bm25}\n"
    retrievers = load(text).retrievers
    assert list(retrievers) == [
        "bm25-k1-0.9-b-0",
        "bm25-k1-0.9-b-1.0",
        "bm25-k1-1.2-b-0",
        "bm25-k1-1.2-b-1.0",
        "x",
    ]
    assert [(r.k1, r.b) for r in retrievers.values()] == [  # type: ignore[attr-defined]
        (0.9, 0),
        (0.9, 1),
        (1.2, 0),
        (1.2, 1),
        (1.2, 0.75),
    ]


def test_texts_chunkings_and_inputs(load: Load) -> None:
    text = (
        "chunking: {whole: {strategy: none}, cut: {strategy: recursive, max_characters: 50, "
        "overlap: 0}}\n"
        "retrievers:\n"
        "  words: {type: bm25, chunking: [whole, cut], analyzer: [english]}\n"
        "  both: {type: rrf, inputs: [words-chunking-whole-analyzer-english, "
        "words-chunking-cut-analyzer-english], k: [1, 60], candidates: [top_k, 9]}\n"
        "  best: {type: maxsim, input: [words-chunking-cut-analyzer-english, "
        "both-k-1-candidates-9]}\n"
    )
    retrievers = load(text).retrievers
    assert [name for name in retrievers if name.startswith("both")] == [
        "both-k-1-candidates-top_k",
        "both-k-1-candidates-9",
        "both-k-60-candidates-top_k",
        "both-k-60-candidates-9",
    ]
    assert retrievers["best-input-both-k-1-candidates-9"].input_names == ("both-k-1-candidates-9",)


PROBLEMS = {
    "value of another type": (
        "retrievers:\n  a:\n    type: bm25\n    k1:\n      - 1.2\n      - high\n",
        ":6: `retrievers.a-k1-high.k1`: should be a valid number; found 'high'",
    ),
    "another key of the block": (
        "retrievers:\n  a:\n    type: bm25\n    k1: [1, 2]\n    c: 3\n",
        ":5: `retrievers.a-k1-1.c`: unknown key 'c'",
    ),
    "no value": (
        "retrievers:\n  a:\n    type: bm25\n    k1: []\n",
        ":4: `retrievers.a.k1`: needs a value, or a list of values",
    ),
    "twice": (
        "retrievers:\n  a: {type: bm25, k1: [1, 1]}\n",
        ":2: `retrievers.a`: two members of this grid are 'a-k1-1'; every value stands once",
    ),
    "a name that is taken": (
        "retrievers:\n  a-k1-1: {type: bm25}\n  a: {type: bm25, k1: [1, 2]}\n",
        ":3: `retrievers.a`: grid member 'a-k1-1' has the name of another retriever",
    ),
    "a fusion of a grid": (
        "retrievers:\n  a: {type: bm25, k1: [1, 2]}\n  x: {type: bm25}\n"
        "  f:\n    type: rrf\n    inputs:\n      - x\n      - a\n",
        ":8: `retrievers.f.inputs.1`: unknown retriever 'a'; allowed: a-k1-1, a-k1-2",
    ),
    "a reranker of a grid": (
        "retrievers:\n  a: {type: bm25, k1: [1, 2]}\n  m: {type: maxsim, input: a}\n",
        ":3: `retrievers.m.input`: unknown retriever 'a'; allowed: a-k1-1, a-k1-2",
    ),
    "a baseline that is a grid": (
        "retrievers:\n  a: {type: bm25, k1: [1, 2]}\nbaseline: a\n",
        ":3: `baseline`: unknown retriever 'a'; allowed: a-k1-1, a-k1-2",
    ),
    "a list in a list": (
        "retrievers:\n  a: {type: bm25, k1: [[1], 2]}\n",
        ":2: `retrievers.a-k1-1.k1`: should be a valid number; found [1]",
    ),
    "a name that breaks the rule": (
        "retrievers:\n  A: {type: bm25, k1: [1, 2]}\n",
        ":2: `retrievers.A-k1-1`: 'A-k1-1' is not a name",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_problems_are_named_where_they_stand(problem: Problem, case: str) -> None:
    text, expected = PROBLEMS[case]
    assert problem(text).startswith(expected)


def test_the_largest_grid(load: Load, problem: Problem) -> None:
    values = list(range(1, MAX_MEMBERS // 2 + 1))
    text = "retrievers: {{a: {{type: bm25, k1: {}, b: {}}}}}\n"
    assert len(load(text.format(values, [0, 1])).retrievers) == MAX_MEMBERS
    assert problem(text.format([*values, 99], [0, 1])) == (
        ":1: `retrievers.a`: is a grid of 66 retrievers (33 of k1 x 2 of b); allowed: at most 64"
    )
