"""Means by slice: a sheet, and the section of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from rag_assets.evaluation.query_facts import ALL
from rag_assets.report.page.environment import shortened
from rag_assets.report.sheet import TEXT, Column, Sheet, better_of, of_split
from rag_assets.report.slices import TAG, Slice
from rag_assets.report.view import Context, View


def slices_sheet(
    slices: Sequence[Slice],
    metric: str,
    by: str = TAG,
    split: str = ALL,
    *,
    order: Sequence[str] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> Sheet:
    """Return a row a slice and a column a retriever, the best of each row marked."""
    columns = (
        Column("value", by, TEXT),
        Column("n_queries", "queries", "d"),
        *(
            Column(f"mean {name}", names.get(name, name), better=better_of(metric))
            for name in order or slices[0].means
        ),
    )
    rows = [
        {
            "value": one.value,
            "n_queries": one.n_queries,
            **{f"mean {name}": mean for name, mean in one.means.items()},
        }
        for one in slices
    ]
    title = f"{metric} by {'query tag' if by == TAG else by}{of_split(split)}"
    return Sheet(title, columns, rows, best_of_row=True, name="slices")


MAX_TAGS = 200
"""Tags of the page; where there are more, those with the most queries."""


def tag_slices(view: View) -> Context | None:
    """Return the section of the page; None where no answerable query has a tag."""
    every = view.result.slices() if view.result.has_metrics else []
    if not every:
        return None
    largest = sorted(every, key=lambda one: -one.n_queries)[:MAX_TAGS]
    tags = [replace(one, value=shortened(one.value)) for one in every if one in largest]
    names = [name for name in view.retrievers if any(name in one.means for one in every)]
    metric = view.result.evaluation.primary
    sheet = slices_sheet(tags, metric, TAG, view.split, order=names)
    return {"sheet": sheet, "n_tags": len(every)}
