"""Documents that came or changed since an older evaluation, and that nobody has judged.

Such a page answers questions as well as any, and counts as wrong: it pushes down what was right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rag_assets.errors import RagAssetsError
from rag_assets.pipeline.evaluation_names import EvaluationNames
from rag_assets.pipeline.evaluations import ANCHOR
from rag_assets.pipeline.reasons import row_contents
from rag_assets.report.evaluation_pairs import EvaluationPair, comparability, has_documents
from rag_assets.report.result import EvaluationResult
from rag_assets.schemas import DOCUMENTS
from rag_assets.sources.stage import QRELS_KEY
from rag_assets.statistics.units import SAME
from rag_assets.store.settings import StoreSettings


@dataclass(frozen=True)
class Newcomer:
    """A document that nobody has judged for a question, and was not there as it is before.

    Attributes:
        document_id: the document.
        became: ``added`` or ``changed``.
        query_id: the question.
        rank: its best one, 1 is the best.
        retriever: who ranks it so.
    """

    document_id: str
    became: str
    query_id: str
    rank: int
    retriever: str

    @property
    def text(self) -> str:
        """Return ``added: pricing.md, unjudged, ranks 1 for q01``."""
        return f"{self.became}: {self.document_id}, unjudged, ranks {self.rank} for {self.query_id}"


class CorpusChange:
    """The documents that came or changed between two evaluations."""

    def __init__(self, pair: EvaluationPair) -> None:
        """Look at the documents of a pair; they are read when they are needed."""
        self._pair = pair

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """Document -> ``added`` or ``changed``; empty where the documents of one are gone."""
        old, new = self._pair.old, self._pair.new
        if not self.is_there or not (has_documents(old) and has_documents(new)):
            return {}
        before, after = (
            row_contents(one.table_of("documents"), DOCUMENTS.key) for one in (old, new)
        )
        return {
            str(key[0]): "changed" if key in before else "added"
            for key, content in after.items()
            if before.get(key) != content
        }

    @property
    def is_there(self) -> bool:
        """Whether any document came, went or changed."""
        digests = [
            [entry.digest for entry in one.evaluation.entries_of("documents")]
            for one in (self._pair.old, self._pair.new)
        ]
        return digests[0] != digests[1]

    @cached_property
    def judged(self) -> set[tuple[str, str]]:
        """The questions and documents that somebody judged, whatever the grade."""
        qrels = self._pair.new.table(QRELS_KEY)
        columns = (qrels[name].to_pylist() for name in ("query_id", "document_id"))
        return set(zip(*columns, strict=True))

    def unjudged(self, run: pa.Table) -> list[bool]:
        """Return for each hit of a run whether it is of such a document, and unjudged."""
        columns = (run[name].to_pylist() for name in ("query_id", "document_id"))
        return [
            document in self.documents and (query, document) not in self.judged
            for query, document in zip(*columns, strict=True)
        ]


def newcomers(
    pair: EvaluationPair,
    names: Iterable[str],
    corpus: CorpusChange,
    lost: Mapping[str, Collection[str]] | None = None,
    *,
    only_lost: bool = False,
) -> list[Newcomer]:
    """Return the unjudged documents that came or changed, and are found at the cut-off.

    Args:
        pair: two evaluations, and a metric of retrieval.
        names: the retrievers.
        corpus: what changed in the corpus of the pair.
        lost: retriever -> questions that lost; found from the pair when absent.
        only_lost: not also what ranks first for a question that lost nothing.

    Returns:
        The best rank of each question and document, the best ranks first.
    """
    best: dict[tuple[str, str], Newcomer] = {}
    cutoff = pair.metric.cutoff
    for name in names if corpus.documents else ():
        key = pair.new.run_keys(name).get(cutoff or 0)
        if key is None:
            continue
        run = pair.new.table(key)
        losing = lost.get(name, ()) if lost is not None else _losing(pair, name)
        for row in run.filter(pa.array(corpus.unjudged(run), pa.bool_())).to_pylist():
            query, document, rank = row["query_id"], row["document_id"], row["rank"]
            if query not in pair.queries or not (query in losing or (rank == 1 and not only_lost)):
                continue
            known = best.get((query, document))
            if known is None or rank < known.rank:
                became = corpus.documents[document]
                best[query, document] = Newcomer(document, became, query, rank, name)
    return sorted(best.values(), key=lambda one: (one.rank, one.query_id, one.document_id))


NEWCOMERS_SHOWN = 5


def newcomer_lines(found: Sequence[Newcomer], count: int) -> Iterator[str]:
    """Yield a line for each of the first newcomers, of ``count``, and how many more there are."""
    for one in found[:NEWCOMERS_SHOWN]:
        yield one.text
    more = count - len(found[:NEWCOMERS_SHOWN])
    if more > 0:
        yield f"and {more} more unjudged documents that were added or changed"


def unjudged_since_anchor(settings: StoreSettings, experiment: str) -> list[str]:
    """Return the lines on newcomers between the anchor and the current evaluation.

    Empty where the two cannot be compared, or there is no anchor: it is a hint, no result.
    """
    try:
        names = EvaluationNames(settings, experiment)
        root = names.root
        old, new = EvaluationResult(root, names.find(ANCHOR)), EvaluationResult.current(root)
        if not (old.has_metrics and new.has_metrics):
            return []
        pair = EvaluationPair.of(old, new, comparability(old, new).shared)
        found = newcomers(pair, pair.new_cells, CorpusChange(pair))
    except RagAssetsError:
        return []
    return list(newcomer_lines(found, len(found)))


def _losing(pair: EvaluationPair, name: str) -> set[str]:
    if name not in pair.old_cells or name not in pair.new_cells:
        return set()
    column = pair.metric.column
    before, after = (
        dict(zip(table["query_id"].to_pylist(), table[column].to_pylist(), strict=True))
        for table in (pair.old_cells[name], pair.new_cells[name])
    )
    return {
        query
        for query, value in after.items()
        if value is not None and (before.get(query) or 0.0) - value > SAME
    }
