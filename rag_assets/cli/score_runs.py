"""Several runs in ``rag-assets score``: what they are called, and what is printed of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rag_assets.cli.terminal import messages, output, print_data, print_note
from rag_assets.errors import UsageError
from rag_assets.evaluation.label_files import Labels
from rag_assets.evaluation.run_files import read_run_file
from rag_assets.evaluation.score import RunScores, nothing_shared, score_runs
from rag_assets.report.formats import as_json, formatted
from rag_assets.report.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.report.terminal_table import sheets_view
from rag_assets.statistics.comparisons import is_significant
from rag_assets.statistics.paired_tests import ALPHA

ENDINGS = {".gz", ".json", ".jsonl", ".parquet", ".run", ".trec", ".tsv", ".txt"}


def named_runs(given: Sequence[str]) -> dict[str, Path]:
    """Return name -> file of each ``[NAME=]FILE``; a file that is there may have ``=`` in its name.

    Raises:
        UsageError: two runs have one name, or a name is empty.
    """
    runs: dict[str, Path] = {}
    for text in given:
        name, sign, file = text.partition("=")
        if not sign or Path(text).exists():
            name, file = _name_of(Path(text)), text
        if not name.strip() or not file:
            raise UsageError(f"--run takes FILE or NAME=FILE; found {text!r}")
        if name in runs:
            raise UsageError(f"two runs are called {name!r}; name them: --run NAME=FILE")
        runs[name] = Path(file)
    return runs


def _name_of(file: Path) -> str:
    """Return a file's name without the endings of runs."""
    while file.suffix in ENDINGS and file.stem:
        file = file.with_suffix("")
    return file.name


def print_runs(
    named: Mapping[str, Path], labels: Labels, metrics: Sequence[str], form: str
) -> None:
    """Print means with intervals, and all pairs with their tests."""
    runs = {name: read_run_file(file) for name, file in named.items()}
    scores = score_runs(runs, labels.judgments, metrics)
    if form == "table":
        output().print(sheets_view(_sheets(scores)))
    elif form == "json":
        print_data(as_json({"means": scores.means, "pairs": scores.pairs}))
    elif form == "csv":
        print_data(formatted(scores.means, form))
        print_note("one CSV is one table, that of the means; --format json has the tests too")
    else:
        print_data(f"{formatted(scores.means, form)}\n{formatted(scores.pairs, form)}")
    _print_accounting(scores)
    for name, run in runs.items():
        strange = nothing_shared(run, labels.judgments)
        print_note(None if strange is None else f"{name}: {strange}")


def _sheets(scores: RunScores) -> Iterator[Sheet]:
    """Yield a table of means and one of pairs for each metric."""
    bounds = ("low", "high")
    for metric in scores.metrics:
        mean = Column("mean", metric, bounds=bounds, interval="95 % interval", is_required=True)
        means = [row for row in scores.means if row["metric"] == metric]
        title = f"{metric}, {scores.n_queries} queries"
        yield Sheet(title, (Column("run", "run", TEXT), mean), means)
        pairs = [
            {
                **row,
                "pair": f"{row['run_b']} - {row['run_a']}",
                "mark": "*" if is_significant(row) else "",
            }
            for row in scores.pairs
            if row["metric"] == metric
        ]
        columns = (
            Column("pair", "pair", TEXT),
            Column(
                "difference",
                "difference",
                SIGNED,
                bounds=bounds,
                interval="95 % interval",
                mark="mark",
                is_required=True,
            ),
            Column("p_randomisation", "p", P_VALUE),
            Column("p_adjusted", "Holm", P_VALUE),
            Column("won", "won", "d"),
            Column("lost", "lost", "d"),
        )
        yield Sheet("", columns, pairs)
    yield Sheet("", (), (), notes=[f"* p < {ALPHA} after Holm over the pairs of a metric"])


def _print_accounting(scores: RunScores) -> None:
    """Say what the means are over; on stderr, so that stdout holds nothing but the numbers."""
    parts = [f"{scores.n_queries} queries averaged"]
    if scores.n_unanswerable:
        parts.append(f"{scores.n_unanswerable} without a relevant document")
    for name, n_missing in scores.n_missing.items():
        if n_missing:
            parts.append(f"{n_missing} missing from {name} (count 0)")
    messages().print("; ".join(parts))
    print_note(scores.caveat)
