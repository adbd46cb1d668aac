from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from rag_assets.retrieval.external.base import Hit
from rag_assets.retrieval.external.returned import Unusable, hits_of


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
        # A score that is no number is nothing, and NaN neither.
        ({"id": "a", "score": float("nan")}, Hit("a")),
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
        (None, "returned NoneType None, not a list of hits"),
        ("a.md", "returned str 'a.md', not a list of hits"),
        ({"a.md": 0.5}, "returned dict {'a.md': 0.5}, not a list of hits"),
        (17, "returned int 17, not a list of hits"),
        ([17], "returned int 17 as a hit, which is not one"),
        ([("a", "b")], "returned tuple ('a', 'b') as a hit, which is not one"),
        ([{"key": "a"}], "a hit with the key 'key'; allowed: doc_id, document_id, end, id"),
        ([{"id": 5}], "whose id, text or document_id is not a text"),
        ([{"document_id": "a"}], "as a hit; a hit is an id"),
        ([{"id": "a", "text": "t"}], "as a hit; a hit is an id"),
        ([("a", -1, 4)], "(-1, 4) as start and end; both are whole numbers"),
        ([("a", 0.5, 4)], "(0.5, 4) as start and end; both are whole numbers"),
        ([HaystackDocument(None)], "as a hit, which is not one"),
    ],
)
def test_what_is_no_list_of_hits_is_said(answer: object, problem: str) -> None:
    with pytest.raises(Unusable) as raised:
        hits_of(answer, 5)
    assert problem in str(raised.value)
    assert len(str(raised.value)) < 400
