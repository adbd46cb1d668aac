from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rag_assets.retrieval.external.hits import Hit, Rejected, hits_of


@dataclass
class LangChainDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class HaystackDocument:
    content: str | None
    meta: dict[str, Any] = field(default_factory=dict)
    score: float | None = None


@dataclass
class LlamaNode:
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    ref_doc_id: str | None = None
    start_char_idx: int | None = None

    def get_content(self) -> str:
        return f"metadata: {self.metadata}\n{self.text}"


@dataclass
class NodeWithScore:
    node: LlamaNode
    score: float | None


class OnlyContent:
    """A node of another class, whose text is behind a method."""

    def get_content(self) -> str:
        return "t"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ("a.md", Hit("a.md")),
        (("a.md", 2), Hit("a.md", score=2.0)),
        (["a.md", np.float32(0.5)], Hit("a.md", score=0.5)),
        (("a.md", None), Hit("a.md")),
        (("a.md", 3, 9), Hit(document_id="a.md", start=3, end=9)),
        ({"text": "t", "source": "a", "score": 1}, Hit(text="t", source="a", score=1.0)),
        ({"doc_id": "a", "start": 0, "end": 2}, Hit(document_id="a", start=0, end=2)),
        ({"text": "t", "doc_id": "a", "start": 4}, Hit(text="t", document_id="a", start=4)),
        (Hit(text="t"), Hit(text="t")),
        (LangChainDocument("t"), Hit(text="t")),
        (
            LangChainDocument("t", {"source": "/x/a.md", "start_index": 7}),
            Hit(text="t", source="/x/a.md", start=7),
        ),
        ((LangChainDocument("t"), 0.3), Hit(text="t", score=0.3)),
        (
            HaystackDocument("t", {"file_path": "a.md", "split_idx_start": 2}, 1.5),
            Hit(text="t", source="a.md", start=2, score=1.5),
        ),
        (
            NodeWithScore(LlamaNode("t", {"file_name": "a.md"}, "uuid", 5), 0.9),
            Hit(text="t", source="a.md", start=5, score=0.9),
        ),
        (NodeWithScore(LlamaNode("t", {}, "a.md"), None), Hit(text="t", source="a.md")),
        (OnlyContent(), Hit(text="t")),
        # A whole number is an id, also one of numpy.
        ([np.int64(7), 1], Hit("7", score=1.0)),
        ({"id": 5}, Hit("5")),
    ],
)
def test_a_hit_has_many_forms(one: object, expected: Hit) -> None:
    assert hits_of([one], 5) == [expected]


def test_lists_are_cut_and_may_be_any_iterable() -> None:
    assert hits_of(iter("abc"), 2) == [Hit("a"), Hit("b")]
    assert hits_of({"documents": [HaystackDocument("t")]}, 3) == [Hit(text="t")]
    assert hits_of([], 3) == []
    assert hits_of(["a", ("b", 1)], 3, as_texts=True) == [Hit(text="a"), Hit(text="b", score=1.0)]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "returned nothing, not a list of hits"),
        ("a.md", 'returned "a.md", not a list of hits'),
        ({"a.md": 0.5}, "returned an object with the keys a.md, not a list of hits"),
        (17, "returned 17, not a list of hits"),
        ([1.5], "hit 1 is 1.5; a hit is an id, (id, score)"),
        ([("a", "b")], 'hit 1: `score` is "b"; it must be a finite number'),
        ([{"id": "a", "score": float("nan")}], "hit 1: `score` is NaN; it must be a finite number"),
        ([{"key": "a"}], "hit 1 has the key 'key'; allowed: id, text, document_id, start, end"),
        (["b", {"id": ["a"]}], "hit 2: `id` is a list of 1; it must be a text or a whole number"),
        ([{"document_id": "a"}], "hit 1: has only document_id; a hit is one of three"),
        ([{"id": "a", "text": "t"}], "hit 1: has only id, text; a hit is one of three"),
        ([("a", -1, 4)], "hit 1: `start` is -1; it must be a whole number from 0, below 2**31"),
        ([("a", 0, 2**31)], "hit 1: `end` is 2147483648; it must be a whole number from 0"),
        ([HaystackDocument(None)], "hit 1 is HaystackDocument "),
    ],
)
def test_what_is_no_list_of_hits_is_said(answer: object, problem: str) -> None:
    with pytest.raises(Rejected) as raised:
        hits_of(answer, 5)
    assert problem in str(raised.value)
    assert len(str(raised.value)) < 400
