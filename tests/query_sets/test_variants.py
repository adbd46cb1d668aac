"""Variants of queries, from files and as they are fused."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DataError
from rag_assets.query_sets.query_set import PERTURB, QUERY_SET_TYPES
from rag_assets.query_sets.strategies import read_variants
from rag_assets.query_sets.variants import Method, variant_table
from rag_assets.retrieval.fusion.methods import RRF_K, fuse_variants
from rag_assets.retrieval.runs_stage import run_key
from rag_assets.schemas import RUNS
from rag_assets.sources.json_datasets import LlamaIndexDataset
from rag_assets.testing import QuerySetContract
from rag_assets.testing.query_sets import TEXTS
from tests.query_sets.queries import queries_of, texts_of
from tests.tiny_experiment import Tiny


def test_original_first_and_no_text_twice() -> None:
    queries = queries_of({"b": " Who?", "a": "Why?"})
    texts = {"b": ["who?", "  Who else? ", "WHO  ELSE?", " ", "When?"], "gone": ["x"]}
    assert texts_of(variant_table(queries, texts)) == {
        "b": [" Who?", "Who else?", "When?"],
        "a": ["Why?"],
    }
    assert variant_table(queries.slice(0, 0), {}).num_rows == 0


QUERIES = queries_of({"1": "Who wrote it?", "2": "Who  WROTE it?", "3": "When?"})

WITHOUT = "queries without a variant in the file keep their original alone"
OF_OTHERS = "entries of the file belong to other queries"


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_json_lines(tmp_path: Path) -> None:
    lines = (
        '{"query_id": 3, "variants": ["At what time?", "when?"]}\n\n'
        '{"query_id": "1", "variants": [], "note": "none"}\n{"query_id": "9", "variants": ["x"]}'
    )
    found = read_variants(write(tmp_path, "rewritten.jsonl", lines), QUERIES)
    assert texts_of(found.table) == {
        "1": ["Who wrote it?"],
        "2": ["Who  WROTE it?"],
        "3": ["When?", "At what time?"],
    }
    assert found.notes == [f"1 {WITHOUT}", f"1 {OF_OTHERS}"]


def test_by_llamaindex_and_by_the_word_queries(tmp_path: Path) -> None:
    content = {"queries": {"1": "Who is the author?", "8": "x"}, "corpus": {}, "relevant_docs": {}}
    found = read_variants(write(tmp_path, "rewritten.json", content), QUERIES)
    assert texts_of(found.table)["1"] == ["Who wrote it?", "Who is the author?"]
    assert found.notes == [f"2 {WITHOUT}", f"1 {OF_OTHERS}"]
    file = write(tmp_path, "a.json", {"queries": ["x"]})
    found = read_variants(file, queries_of({"1": "queries"}))
    assert texts_of(found.table) == {"1": ["queries", "x"]}


def test_by_text(tmp_path: Path) -> None:
    content = {"who wrote it?": ["By whom?", "Author?"], "When?": "Which year?", "Where?": ["x"]}
    found = read_variants(write(tmp_path, "rewritten.json", content), QUERIES)
    assert texts_of(found.table) == {
        "1": ["Who wrote it?", "By whom?", "Author?"],
        "2": ["Who  WROTE it?", "By whom?", "Author?"],
        "3": ["When?", "Which year?"],
    }
    assert found.notes == [f"1 {OF_OTHERS}"]


OF_1 = '{"query_id": "1", "variants": '
BROKEN_LINES = {
    '{"query_id": "1"}': ":1: `variants`: is null; must be a list of strings",
    '{"variants": []}': ":1: `query_id`: is missing",
    f'\n{OF_1}"x"}}': ":2: `variants`: is a string; must be",
    f'{OF_1}["x", 1]}}': r":1: `variants\[1\]`: is an integer",
    f'{OF_1}[" "]}}': r":1: `variants\[0\]`: is blank",
    f'{OF_1}[]}}\n{{"query_id": 1, "variants": []}}': ":2: `query_id`: is the same query as on",
    "[1]": ":1: found a list; each line must be one JSON object",
}
BROKEN_OBJECTS: list[tuple[object, str]] = [
    ({"queries": {"1": ["x"]}}, r"`queries\.1`: is a list; must be a string"),
    ({"When?": [None]}, r"`'When\?'\[0\]`: is null; must be a string"),
    ({"When?": 3}, r"`'When\?'`: is an integer; must be a list of strings"),
    ({"When?": [], "when?": []}, r"`'when\?'`: is the same query as 'When\?'"),
    ({f"{'w' * 70} A": ["x"], f"{'w' * 70} a": ["y"]}, "is the same query as"),
    ('{"When?": [],\n}', ":2: malformed JSON"),
    (["x"], "found a list; must be JSON lines"),
    ({"else": ["x"]}, "matches no query: it names 1, such as 'else'; query ids are '1'"),
    ({}, "matches no query: it names 0; query ids"),
]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [("a.jsonl", *one) for one in BROKEN_LINES.items()]
    + [("a.json", *one) for one in BROKEN_OBJECTS],
)
def test_broken_files(tmp_path: Path, name: str, content: object, problem: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=problem) as raised:
        read_variants(path, QUERIES)
    assert str(raised.value).startswith(str(path))


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["doc_qa_dataset.json", "doc_qa_test_demo.json"])
def test_published_rewritings(shared_data: Callable[[str], Path], name: str) -> None:
    folder = shared_data("seed_doc_qa")
    queries = LlamaIndexDataset.open(folder / name).read_queries().table
    found = read_variants(folder / "query_rewrite.json", queries)
    n_others = 321 - queries.num_rows
    assert found.notes == ([f"{n_others} {OF_OTHERS}"] if n_others else [])
    sizes = [len(texts) for texts in texts_of(found.table).values()]
    assert len(sizes) == queries.num_rows
    assert set(sizes) <= {2, 3, 4}  # a few of the three rewritings are alike
    assert sizes.count(4) > 0.9 * len(sizes)
    assert read_variants(folder / name, queries).table.num_rows == queries.num_rows


class TestEveryStrategy(QuerySetContract):
    @pytest.fixture(params=sorted(QUERY_SET_TYPES.keys() - {PERTURB}))
    def options(self, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
        options: dict[str, Any] = {"strategy": request.param}
        if request.param == "file":
            rows = [{"query_id": name, "variants": ["a", "A ", f"{name} b"]} for name in TEXTS]
            file = tmp_path / "variants.jsonl"
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            options["path"] = file
        return options


class Hit(NamedTuple):
    query_id: str
    variant: int
    unit_id: str
    score: float


def fused_of(
    hits: list[Hit], method: Method, *, depth: int, weights: Sequence[float] = ()
) -> pa.Table:
    ranks: dict[tuple[str, int], int] = defaultdict(int)
    rows: list[dict[str, object]] = []
    for hit in hits:
        ranks[hit.query_id, hit.variant] += 1
        row = {"query_id": hit.query_id, "rank": ranks[hit.query_id, hit.variant]}
        row |= {"unit_id": hit.unit_id, "score": hit.score, "document_id": hit.unit_id}
        rows.append({**row, "chunk_id": f"{hit.unit_id}#{hit.variant}"})
    variants = np.array([hit.variant for hit in hits], dtype=np.int64)
    return fuse_variants(RUNS.from_rows(rows), variants, method, depth=depth, weights=weights)


TWO = [
    Hit("q", 0, "a", 9.0),
    Hit("q", 0, "b", 5.0),
    Hit("q", 0, "c", 1.0),
    Hit("q", 1, "b", 6.0),
    Hit("q", 1, "d", 3.0),
    Hit("r", 2, "a", 0.5),
]


def scores(table: pa.Table, query_id: str = "q") -> list[tuple[str, float]]:
    rows = [row for row in table.to_pylist() if row["query_id"] == query_id]
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    return [(row["unit_id"], row["score"]) for row in rows]


@pytest.mark.parametrize(
    ("method", "weights", "expected"),
    [
        ("rrf", [], [("b", 1 / 61 + 1 / 62), ("a", 1 / 61), ("d", 1 / 62), ("c", 1 / 63)]),
        ("max", [], [("a", 9.0), ("b", 6.0), ("d", 3.0), ("c", 1.0)]),
        ("sum", [], [("b", 11.0), ("a", 9.0), ("d", 3.0), ("c", 1.0)]),
        ("weighted", [0.5, 2.0], [("b", 14.5), ("d", 6.0), ("a", 4.5), ("c", 0.5)]),
        ("weighted", [0, 1], [("b", 6.0), ("d", 3.0)]),
        ("weighted", [1, 0], [("a", 9.0), ("b", 5.0), ("c", 1.0)]),
        ("weighted", [2], [("b", 22.0), ("a", 18.0), ("d", 6.0), ("c", 2.0)]),
    ],
)
def test_methods(method: Method, weights: list[float], expected: list[tuple[str, float]]) -> None:
    fused = fused_of(TWO, method, depth=10, weights=weights)
    assert RUNS.check(fused).schema == RUNS.arrow()
    found = scores(fused)
    assert [item for item, _ in found] == [item for item, _ in expected]
    assert dict(found) == pytest.approx(dict(expected), abs=1e-15)


def test_a_query_that_only_the_original_answers_keeps_it() -> None:
    hits = [*TWO, Hit("s", 0, "a", 7.0), Hit("s", 0, "b", 3.0)]
    fused = fused_of(hits, "weighted", depth=9, weights=[0, 1])
    assert scores(fused, "s") == [("a", 7.0), ("b", 3.0)]
    assert scores(fused) == [("b", 6.0), ("d", 3.0)]


def test_ties_go_by_id_in_utf8_bytes_descending() -> None:
    names = ["b", "B", "é", "日", "\U0001f600", "a", "\uffee"]
    hits = [Hit("q", variant, name, 1.0) for variant, name in enumerate(names)]
    for method in ("rrf", "max", "sum"):
        found = [item for item, _ in scores(fused_of(hits, method, depth=9))]
        assert found == sorted(names, key=str.encode, reverse=True)
    cut = fused_of(hits, "rrf", depth=2)
    assert [item for item, _ in scores(cut)] == sorted(names, key=str.encode, reverse=True)[:2]


def test_repeated_units_and_their_chunks() -> None:
    hits = [Hit("q", 0, "a", 3.0), Hit("q", 0, "b", 2.0), Hit("q", 0, "a", 1.0)]
    assert scores(fused_of(hits, "sum", depth=9)) == [("a", 3.0), ("b", 2.0)]
    by_rank = scores(fused_of(hits, "rrf", depth=9))
    assert by_rank == [("a", 1 / (RRF_K + 1)), ("b", 1 / (RRF_K + 2))]
    chunks = fused_of(TWO, "sum", depth=9).to_pylist()
    best = {row["chunk_id"] for row in chunks if row["query_id"] == "q"}
    assert best == {"a#0", "b#1", "c#0", "d#1"}


def test_units_with_the_same_terms_tie_exactly() -> None:
    orders = list(permutations([0.1, 0.2, 0.3, 0.7]))
    hits = [
        Hit("q", variant, f"unit {number}", score)
        for number, order in enumerate(orders)
        for variant, score in enumerate(order)
    ]
    found = scores(fused_of(hits, "sum", depth=99))
    assert len({score for _, score in found}) == 1
    assert [item for item, _ in found] == sorted((item for item, _ in found), reverse=True)


SCORES = st.integers(-3, 5).map(float)
RANKINGS = st.dictionaries(
    st.tuples(st.sampled_from(["q", "r"]), st.integers(0, 3)),
    st.dictionaries(st.sampled_from("abcde"), SCORES, min_size=1),
)


@settings(max_examples=25, deadline=None)
@given(RANKINGS, st.sampled_from(get_args(Method)), st.integers(1, 6))
def test_agrees_with_the_formulas(
    rankings: dict[tuple[str, int], dict[str, float]], method: Method, depth: int
) -> None:
    weights = [1.0, 0.5, 2.0]
    hits, expected = [], defaultdict[tuple[str, str], list[float]](list)
    for (query_id, variant), found in rankings.items():
        ordered = sorted(found.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        for rank, (item, score) in enumerate(ordered, start=1):
            hits.append(Hit(query_id, variant, item, score))
            weighted = weights[min(variant, 2)] * score
            term = {"rrf": 1 / (60 + rank), "weighted": weighted}.get(method, score)
            expected[query_id, item].append(term)
    given_weights = weights if method == "weighted" else ()
    fused = fused_of(hits, method, depth=depth, weights=given_weights)
    combine = max if method == "max" else math.fsum
    for query_id in {query_id for query_id, _ in expected}:
        totals = [(combine(t), item) for (q, item), t in expected.items() if q == query_id]
        values = sorted((total for total, _ in totals), reverse=True)[:depth]
        assert [score for _, score in scores(fused, query_id)] == pytest.approx(values, abs=1e-12)


WORDS = [f"word{number}" for number in range(30)]


@pytest.fixture
def words(tmp_path: Path) -> Tiny:
    """300 documents and five questions with three variants each, so that many units are tied."""
    chance = random.Random(3)

    def said(n: int) -> str:
        return " ".join(chance.sample(WORDS, n))

    tiny = Tiny(tmp_path / "words")
    tiny.folder.mkdir(parents=True)
    documents = (
        {"doc_id": f"d{n:03}", "text": " ".join(chance.choices(WORDS, k=12))} for n in range(300)
    )
    names = [f"q{n}" for n in range(5)]
    tiny.write_rows("documents.jsonl", [*documents])
    tiny.write_rows("queries.jsonl", [{"query_id": name, "text": said(3)} for name in names])
    variants = [{"query_id": name, "variants": [said(3) for _ in range(3)]} for name in names]
    tiny.write_rows("variants.jsonl", variants)
    return tiny


def first_three(tiny: Tiny, name: str, top_k: list[int], **options: Any) -> list[tuple[str, str]]:
    tiny.config = {
        "name": name,
        "chunking": {"whole": {"strategy": "none"}},
        "query_sets": {"said": {"strategy": "file", "path": "variants.jsonl"}},
        "retrievers": {"bm25": {"type": "bm25", "query_set": "said", **options}},
        "top_k": top_k,
    }
    tiny.write_config()
    tiny.run()
    rows = tiny.rows(run_key(tiny.pipeline().experiment, "bm25", 3))
    return [(row["query_id"], row["unit_id"]) for row in rows]


@pytest.mark.parametrize("variants", ["rrf", "sum"])
def test_a_deeper_cell_changes_nothing_at_the_top(words: Tiny, variants: str) -> None:
    alone = first_three(words, "alone", [3], variants=variants)
    assert first_three(words, "deep", [3, 200], variants=variants) == alone
    assert first_three(words, "few", [3], variants=variants, variant_candidates=2) != alone
