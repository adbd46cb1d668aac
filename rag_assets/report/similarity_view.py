"""How alike the results of rerankers are, where one is for diversity, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from rag_assets.evaluation.leaderboard import mean
from rag_assets.report.fitted_table import FittedTable
from rag_assets.report.result import EvaluationResult
from rag_assets.report.rows import Row


def similarity_parts(result: EvaluationResult, shown: Sequence[Row]) -> list[RenderableType]:
    """Return a heading and a table, a row a reranked retriever; nothing without `mmr`.

    A value is the mean, over all queries with two results or more, of the mean cosine of all pairs
    of results: lower is more diverse.

    Args:
        result: the evaluation.
        shown: rows of one cut-off.
    """
    top_k = int(str(shown[0]["top_k"]))
    found = result.list_similarities(top_k)
    names = [str(row["retriever"]) for row in shown if row["retriever"] in found]
    if not names:
        return []
    table = FittedTable()
    table.add_column("retriever", overflow="fold")
    table.add_column("similarity", justify="right", no_wrap=True)
    table.add_column("of its input", justify="right", no_wrap=True)
    for name in names:
        columns = (found[name].column(one) for one in ("similarity", "input_similarity"))
        means = [mean(one.to_pylist()) for one in columns]
        table.add_row(name, *("-" if value is None else f"{value:.4f}" for value in means))
    heading = f"how alike the results of a query are at top_k {top_k} (mean cosine of all pairs)"
    return ["", Text(heading, style="bold"), table]
