"""Every known way in which a tool's number differs from ours, and when it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rag_assets.evaluation.dialects.dialect import Dialect, ToolQuery


@dataclass(frozen=True)
class Situation:
    """What of a query decides whether definitions part.

    Attributes:
        query: the query.
        k: the cut-off.
        dialect: the tool that is compared.
    """

    query: ToolQuery
    k: int
    dialect: Dialect

    @property
    def listed(self) -> list[str]:
        """The list cut at k, as the run has it."""
        return self.query.ranking[: self.k]

    @property
    def groups(self) -> list[frozenset[str]]:
        """Groups of relevant ids, without blanks."""
        named = (frozenset(filter(str.strip, group)) for group in self.query.groups)
        return [group for group in named if group]

    @property
    def repeats(self) -> bool:
        """A document stands twice in the list."""
        return len(set(self.listed)) < len(self.listed)

    @property
    def alternatives(self) -> bool:
        """The groups are not simply one document each."""
        return [len(group) for group in self.groups] != [1] * len(self.query.relevant)

    @property
    def graded(self) -> bool:
        """Relevant documents have different grades."""
        return len({grade for grade in self.query.grades.values() if grade > 0}) > 1

    @property
    def short(self) -> bool:
        """Fewer than k documents are listed."""
        return len(self.listed) < self.k

    @property
    def n_ideal(self) -> int:
        """Length of our ideal list."""
        return min(len(self.groups), self.k)


@dataclass(frozen=True)
class Difference:
    """One reason.

    Attributes:
        dialects: the tools that it is about.
        measures: the canonical measures that it changes.
        reason: what the tool does, in words.
        applies: whether it can change the number of a query.
    """

    dialects: tuple[str, ...]
    measures: tuple[str, ...]
    reason: str
    applies: Callable[[Situation], bool]


_RANKED = ("hit_rate", "mrr", "ndcg", "ndcg_exp", "recall", "recall_cap", "precision", "f1", "map")
_GROUPED = ("group_recall", "group_f1", "group_mrr", "group_map", "group_ndcg")
_OTHERS = ("r_precision", "bpref")
_ALL = (*_RANKED, *_GROUPED, *_OTHERS)
_NDCG = ("ndcg", "group_ndcg")
_LISTS = ("autorag", "llamaindex", "mlflow", "sentence_transformers")
_FLAT = ("llamaindex", "mlflow", "sentence_transformers", "beir", "ranx", "ragas")
_EVERY = ("autorag", *_FLAT)


def _multiple_groups(case: Situation) -> bool:
    return len(case.groups) > 1 or case.alternatives


DIFFERENCES: tuple[Difference, ...] = (
    # Queries that one side does not count.
    Difference(
        ("autorag",),
        _ALL,
        "no value for an empty list, left out of the mean (ours: 0)",
        lambda case: not case.listed,
    ),
    Difference(
        ("autorag",),
        _ALL,
        "no value when retrieval_gt holds an empty group or a blank id (ours: leaves those out)",
        lambda case: (
            len(case.groups) < len(case.query.groups)
            or any(not item.strip() for group in case.query.groups for item in group)
        ),
    ),
    Difference(
        ("llamaindex",),
        _ALL,
        "raises ValueError when nothing was retrieved (ours: 0)",
        lambda case: not case.listed,
    ),
    Difference(
        ("mlflow",),
        ("recall", "ndcg"),
        "a query without a relevant document is 1 when nothing was retrieved, else 0 (ours: left "
        "out)",
        lambda case: not case.query.relevant,
    ),
    Difference(
        ("beir", "ranx", "mlflow", "ragas"),
        ("precision", "hit_rate", "mrr", "map", "f1", *_OTHERS, "ndcg_exp"),
        "a query without a relevant document is 0 (ours: left out)",
        lambda case: not case.query.relevant,
    ),
    Difference(
        ("beir", "ranx"),
        ("recall", "ndcg", "recall_cap"),
        "a query without a relevant document is 0 (ours: left out)",
        lambda case: not case.query.relevant,
    ),
    Difference(
        ("beir",),
        ("ndcg", "map", "recall", "precision"),
        "a query that the run lacks is left out of the mean (ours: 0)",
        lambda case: not case.query.in_run,
    ),
    Difference(
        ("ragas",),
        _ALL,
        "a query that the run lacks is no row of its data (ours: 0)",
        lambda case: not case.query.in_run,
    ),
    # The list.
    Difference(
        _EVERY,
        _ALL,
        "a document stands twice (ours: refused)",
        lambda case: bool(case.query.repeated),
    ),
    Difference(
        ("sentence_transformers", "ranx", "beir"),
        _ALL,
        "equal scores, or lists not in the order of their scores, are read in another order",
        lambda case: case.dialect.order(case.query)[: case.k] != case.listed,
    ),
    Difference(
        ("beir",),
        ("mrr", "hit_rate", "recall_cap"),
        "equal scores stay in the order of the run (ours: the higher id first)",
        lambda case: len(set(case.query.scores.values())) < len(case.query.scores),
    ),
    Difference(
        ("beir",),
        _ALL,
        "a hit whose id is that of the query is dropped",
        lambda case: case.query.query_id in case.query.scores,
    ),
    # nDCG.
    Difference(
        _LISTS,
        ("ndcg", "group_ndcg"),
        "gain is binary (ours: the grade)",
        lambda case: case.graded,
    ),
    Difference(
        ("llamaindex",),
        ("ndcg",),
        "the ideal list counts all R (ours: cut at k)",
        lambda case: len(case.query.relevant) > case.k,
    ),
    Difference(
        ("autorag", "mlflow"),
        _NDCG,
        "the ideal list is no longer than what was retrieved (ours: min(R, k) entries)",
        lambda case: len(case.listed) < case.n_ideal,
    ),
    Difference(
        ("autorag",),
        _NDCG,
        "the ideal list counts every alternative of a group (ours: one entry a group)",
        lambda case: case.alternatives,
    ),
    Difference(
        ("autorag",),
        _NDCG,
        "every alternative of a group gains (ours: only the first)",
        lambda case: any(len(group.intersection(case.listed)) > 1 for group in case.groups),
    ),
    # Precision and F1.
    Difference(
        ("autorag", "mlflow", "llamaindex"),
        ("precision", "f1"),
        "divides by the documents retrieved (ours: by k)",
        lambda case: case.short,
    ),
    # MRR and MAP.
    Difference(
        ("autorag",),
        ("mrr",),
        "mean over groups of 1 / rank of each group's first document (ours: the first of all)",
        _multiple_groups,
    ),
    Difference(
        ("autorag",),
        ("map",),
        "mean over groups of the precision at each document found (ours: the precision of all that "
        "is relevant, where each group is first satisfied)",
        _multiple_groups,
    ),
    Difference(
        ("sentence_transformers",),
        ("map",),
        "divides by min(R, k) (ours: by R)",
        lambda case: len(case.query.relevant) > case.k,
    ),
    Difference(
        ("ragas",),
        ("map",),
        "divides by the relevant documents among the retrieved (ours: by R)",
        lambda case: not case.query.relevant.issubset(case.listed),
    ),
    # R-precision and bpref.
    Difference(
        ("ranx",),
        ("r_precision",),
        "looks at the first R, whatever k is (ours: at no more than the first k)",
        lambda case: len(case.query.relevant) > case.k,
    ),
    Difference(
        ("ranx",),
        ("bpref",),
        "no number where no document is judged not relevant (ours: 1 for each found)",
        lambda case: all(grade > 0 for grade in case.query.grades.values()),
    ),
    Difference(
        ("ranx",),
        ("bpref",),
        "looks at the whole list, whatever k is (ours: at the first k)",
        lambda case: len(case.query.scores) > case.k,
    ),
    Difference(
        ("ranx",),
        ("bpref",),
        "a negative grade is judged not relevant (ours: not judged, as trec_eval has it)",
        lambda case: any(grade < 0 for grade in case.query.grades.values()),
    ),
    # Groups.
    Difference(
        _FLAT,
        _RANKED + _OTHERS,
        "knows no groups: each alternative is a relevant document of its own",
        lambda case: case.alternatives,
    ),
)


def reasons(measure: str, case: Situation) -> list[str]:
    """Return why a tool's value of a canonical measure may differ from ours for this query."""
    return [
        difference.reason
        for difference in DIFFERENCES
        if case.dialect.name in difference.dialects
        and measure in difference.measures
        and difference.applies(case)
    ]
