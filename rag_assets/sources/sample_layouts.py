"""The rows in which other tools write questions, with their answers and passages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from rag_assets.sources.fields import Row


class Passages(NamedTuple):
    """A key with passages, and their keys; without ``text`` a passage is a text by itself."""

    key: str
    text: str = ""
    title: str = ""
    ids: tuple[str, ...] = ()
    relevant: str | bool = True


class Layout(NamedTuple):
    """The keys of a row; ``prepare`` brings it into this form.

    Question and answer are a text, or an object with one. The value under ``tag`` becomes a tag.
    """

    tool: str
    question: str
    answer: str
    passages: tuple[Passages, ...] = ()
    ids: tuple[str, ...] = ("id",)
    tag: str = ""
    prepare: Callable[[Row], Row] = lambda row: row

    @property
    def needed(self) -> set[str]:
        """The keys without which a row has another layout."""
        objects = (passages.key for passages in self.passages[:1] if passages.text)
        return {self.question, self.answer, *objects} - {"", "assert"}


def listed(value: Any) -> list[Any]:  # noqa: ANN401 (whatever JSON can hold)
    """Return a list, or the list of one value; null is no value."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _hotpot(row: Row) -> Row:
    facts, context = row["supporting_facts"], row["context"]
    if isinstance(facts, dict):  # as Hugging Face has it: columns in place of pairs
        facts = zip(facts["title"], facts["sent_id"], strict=True)
        context = zip(context["title"], context["sentences"], strict=True)
    titles = {title for title, _ in facts}
    passages = [{"title": t, "text": "".join(s), "relevant": t in titles} for t, s in context]
    return {**row, "context": passages}


def _ragas(row: Row) -> Row:
    contexts = listed(row.get("reference_contexts"))
    return {**row, "reference_contexts": [re.sub(r"^<\d+-hop>\s+", "", c) for c in contexts]}


def _deepeval(row: Row) -> Row:
    context = row.get("context")
    return {**row, "context": context.split("|") if isinstance(context, str) else context}


def _promptfoo(row: Row) -> Row:
    """Keep the assertions that say what an answer is or has in it."""
    texts = ("equals", "contains", "icontains")
    given = listed(row["assert"])
    return {**row, "assert": [x for x in given if isinstance(x, str) or x.get("type") in texts]}


_PAGE = ("doc_name", "evidence_page_num")
_OF_MUSIQUE = Passages("paragraphs", "paragraph_text", "title", (), "is_supporting")
_OF_HOTPOTQA = Passages("context", "text", "title", (), "relevant")
_OF_FINANCE = Passages("evidence", "evidence_text_full_page", "doc_name", _PAGE)
_OF_MIRACL = (
    Passages("positive_passages", "text", "title", ("docid",)),
    Passages("negative_passages", "text", "title", ("docid",), relevant=False),
)
_FINANCE_ID = ("financebench_id",)

LAYOUTS = (
    Layout(
        "Ragas",
        "user_input",
        "reference",
        (Passages("reference_contexts"),),
        tag="synthesizer_name",
        prepare=_ragas,
    ),
    Layout("DeepEval", "input", "expected_output", (Passages("context"),), prepare=_deepeval),
    Layout("MuSiQue", "question", "answer", (_OF_MUSIQUE,)),
    Layout("HotpotQA", "question", "answer", (_OF_HOTPOTQA,), ("_id", "id"), "type", _hotpot),
    Layout("FinanceBench", "question", "answer", (_OF_FINANCE,), _FINANCE_ID, "question_type"),
    Layout("MIRACL", "query", "", _OF_MIRACL, ("query_id",)),
    Layout("LangSmith", "inputs", "outputs"),
    Layout("Phoenix", "input", "output", ids=("id", "example_id")),
    Layout("promptfoo", "vars", "assert", prepare=_promptfoo),
    Layout("OpenAI evals", "messages", "ideal"),
)
