"""Single parts without an evaluation: search texts by BM25, score a run, cut a text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pydantic import ValidationError

from rag_assets.chunking.chunker import CHUNKING_TYPES, Embed, cut_documents
from rag_assets.chunking.index_texts import indexed_texts
from rag_assets.chunking.windows import whole_texts
from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.run_files import ranked
from rag_assets.evaluation.score import Scores, score
from rag_assets.experiment.yaml_file import refused
from rag_assets.live.records import Placed, Records, document_rows
from rag_assets.models.encoder import Encoder
from rag_assets.retrieval.lexical import bm25
from rag_assets.schemas import RELEVANT_UNITS
from rag_assets.sources.labelled_folder import JsonlDataset

Run = Mapping[Any, Mapping[Any, float] | Sequence[Any]]
"""Query id -> document id -> score, or a list of document ids, best first; texts or integers."""

Qrels = Mapping[Any, Mapping[Any, int] | Iterable[Any]]
"""Query id -> document id -> grade, or the ids of relevant documents."""


class SearchResult(NamedTuple):
    """A text that was found.

    Attributes:
        id: of the text.
        score: the higher, the better; comparable within one query.
        text: the text itself.
    """

    id: str
    score: float
    text: str


class BM25:
    """BM25 over texts, or, without texts, a retriever of ``rag_assets.evaluate``.

    ``BM25(texts).search("a query", 3)`` searches; ``retrievers={"bm25": BM25(k1=0.9)}`` is for an
    evaluation, of its documents.
    """

    def __init__(
        self,
        texts: object = (),
        *,
        k1: float = 1.2,
        b: float = 0.75,
        analyzer: str = "auto",
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Check the options, and index the texts.

        Args:
            texts: a list of texts, whose ids are 0, 1, ...; a dict of id to text; or a list of
                dicts or a data frame with ``doc_id``, ``text`` and if wanted ``title``.
            k1: how much each further occurrence of a word adds, >= 0.
            b: how much long texts are held back, 0 to 1.
            analyzer: ``auto``, or the name of one, such as ``english``.
            options: all others of ``type: bm25``, such as ``variant``, ``identifiers``, ``expand``.

        Raises:
            ConfigError: an option is wrong.
            UsageError: ``texts`` is something else; says what is expected.
            DataError: a text or an id is none, or an id stands twice.
        """
        given = {"k1": k1, "b": b, "analyzer": analyzer, **options}
        given = {name: float(v) if name in {"k1", "b"} else v for name, v in given.items()}
        self.options: bm25.BM25 = _checked(
            "retrievers", "bm25", bm25.BM25, {"type": "bm25", **given}
        )
        self.texts: dict[str, str] = {}
        rows = document_rows(texts, "texts")
        if rows:
            self._index(rows)

    def __repr__(self) -> str:
        """Return what is searched and how."""
        chosen = {"k1": self.options.k1, "b": self.options.b, "analyzer": self.options.analyzer}
        shown = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
        return f"BM25({f'{len(self.texts)} texts, ' if self.texts else ''}{shown})"

    def search(self, query: str, k: int = 10) -> list[SearchResult]:
        """Return the best ``k`` texts, those that share a word with the query.

        Raises:
            UsageError: there are no texts, or ``k`` is below 1.
        """
        if not self.texts:
            raise UsageError("BM25() has no texts to search; give some: BM25(texts)")
        if not isinstance(query, str):
            raise UsageError(f"the query is {type(query).__name__} {query!r:.60}; expected a text")
        if k < 1:
            raise UsageError(f"k is {k!r:.20}; expected a whole number of at least 1")
        (hits,) = self._searcher.search([query], k, None)
        ids = [self._searcher.chunk_ids[position] for position in hits.positions.tolist()]
        scores = hits.scores.tolist()
        return [SearchResult(i, s, self.texts[i]) for i, s in zip(ids, scores, strict=True)]

    def _index(self, rows: list[Placed]) -> None:
        records = Records(rows, [], None)
        self._folder = TemporaryDirectory(prefix="rag_assets_bm25_")  # goes with this object
        folder = Path(self._folder.name)
        records.write(folder)
        with records.errors("texts"):
            documents = JsonlDataset.open(folder).read_documents().table
        chunks = cut_documents(documents, whole_texts, whole=True)
        columns = (documents.column(name).to_pylist() for name in ("document_id", "text"))
        self.texts = dict(zip(*columns, strict=True))
        index = folder / "index"
        index.mkdir()
        self.options.build(chunks, indexed_texts(chunks), index)
        self._searcher = self.options.open(index)


def metrics(run: Run, qrels: Qrels, names: Sequence[str], *, trec_mean: bool = False) -> Scores:
    """Score a run that is a dict, as ranx and pytrec_eval take it.

    Args:
        run: query id -> document id -> score; or -> a list of document ids, best first. Documents
            with equal scores are in the order of trec_eval.
        qrels: query id -> document id -> grade; or -> the ids of relevant documents.
        names: of metrics, such as ``["ndcg@10", "mrr", "recall@100"]``, in our vocabulary, that
            of ir_measures or that of trec_eval.
        trec_mean: average over every query of the qrels, as ``trec_eval -c`` does; without it, over
            those with a relevant document.

    Returns:
        ``scores.means`` is name -> mean in [0, 1], ``scores.per_query`` a dict a query.

    Raises:
        UsageError: something is no run, no qrels or no metric; says what is expected.
    """
    if isinstance(names, str):
        raise UsageError(f"names is a text, {names!r:.60}; expected a list, such as ['ndcg@10']")
    scores = _by_query("run", run, "scores, or a list of document ids, best first")
    grades = _by_query("qrels", qrels, "grades, or the ids of relevant documents")
    rows: list[dict[str, object]] = [
        {"query_id": query, "evidence_id": item, "unit_id": item, "grade": _grade(query, item, v)}
        for query, items in grades.items()
        for item, v in items.items()
    ]
    if not rows:
        raise UsageError("qrels holds no judgment; expected a dict of query id to document id")
    table = ranked(
        {q: {item: _score(q, item, v) for item, v in own.items()} for q, own in scores.items()}
    )
    return score(table, RELEVANT_UNITS.from_rows(rows), names, trec_mean=trec_mean)


def _by_query(name: str, given: object, values: str) -> dict[str, dict[str, object]]:
    """Return query id -> document id -> number; a list becomes falling numbers, or 1 in qrels."""
    expected = f"expected a dict of query id to a dict of document id to {values}"
    if not isinstance(given, Mapping):
        raise UsageError(f"{name} is {type(given).__name__} {given!r:.60}; {expected}")
    found: dict[str, dict[str, object]] = {}
    for query, own in given.items():
        place = f"{name}[{query!r}]"
        if isinstance(own, Mapping):
            found[_id(name, query)] = {_id(place, item): value for item, value in own.items()}
            continue
        if isinstance(own, str) or not isinstance(own, Iterable):
            raise UsageError(f"{place} is {type(own).__name__} {own!r:.60}; {expected}")
        ids = [_id(place, item) for item in own]
        twice = next((item for item in ids if ids.count(item) > 1), None)
        if twice is not None:
            raise UsageError(f"{place} holds '{twice}' twice; a document is retrieved once")
        numbers = (1 / rank if name == "run" else 1 for rank in range(1, len(ids) + 1))
        found[_id(name, query)] = dict(zip(ids, numbers, strict=True))
    return found


def _id(place: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{place} has the id {value!r:.60}; an id is a text or a whole number")
    return value


def _score(query: str, item: str, value: Any) -> float:  # noqa: ANN401
    try:
        number = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        problem = f"run['{query}']['{item}'] is {value!r:.40}; a score is a finite number"
        raise UsageError(problem)
    return number


def _grade(query: str, item: str, value: Any) -> int:  # noqa: ANN401
    try:
        grade = None if isinstance(value, str | bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        grade = None
    if grade is None or grade != value or abs(grade) >= 2**31:
        raise UsageError(f"qrels['{query}']['{item}'] is {value!r:.40}; a grade is a whole number")
    return grade


class TextChunk(NamedTuple):
    """A piece of a text.

    Attributes:
        text: ``whole[start:end]``.
        start: first character.
        end: character after the last one.
        headings: those above it, outermost first, where the strategy looks for them.
        parent: the span that is returned in its place, with ``strategy="parent"``; else None.
    """

    text: str
    start: int
    end: int
    headings: tuple[str, ...]
    parent: tuple[int, int] | None


def chunk(text: str, strategy: str = "recursive", **options: Any) -> list[TextChunk]:  # noqa: ANN401
    """Cut a text as ``chunking`` of an experiment would cut a document.

    Args:
        text: the text.
        strategy: ``recursive``, ``fixed``, ``markdown``, ``sentences``, ``semantic``, ``parent``,
            ``none``, or one that a package brings.
        options: of the strategy, such as ``max_characters=500, overlap=50``.

    Returns:
        The chunks in their order; none of a blank text.

    Raises:
        UsageError: the text is none, or the strategy is unknown.
        ConfigError: an option is wrong.
        ModelUnavailable: the strategy needs a model that cannot be had.
    """
    if not isinstance(text, str):
        raise UsageError(f"text is {type(text).__name__} {text!r:.60}; expected one text")
    if strategy not in CHUNKING_TYPES:
        raise UsageError(f"unknown strategy {allowed_names(strategy, CHUNKING_TYPES)}")
    chunker = _checked(
        "chunking", strategy, CHUNKING_TYPES[strategy], {"strategy": strategy, **options}
    )
    (pieces,) = chunker.cutter(_embed_by)([text])
    return [TextChunk(text[p.start : p.end], *p) for p in pieces]


def _embed_by(model: str) -> Embed:
    return partial(Encoder(model).encode, kind="document")


def _checked(section: str, member: str, options: type[Any], given: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return options of a member of a section of an experiment."""
    try:
        return options.model_validate(given)
    except ValidationError as error:
        raise refused(error, {section: {"": given}}, (section, "", member), 2) from error
