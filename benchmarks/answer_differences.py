"""Print the answerers of an experiment's last evaluation, and every paired difference.

    python benchmarks/answer_differences.py benchmarks/experiments/squad_answers.yaml
    python benchmarks/answer_differences.py EXPERIMENT.yaml --store STORE --metrics answer_f1

A difference is second minus first, with its interval, p of the randomisation test, Holm's
correction over all pairs of the metric, and the smallest that so many questions show with power .8.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import click

from rag_assets.analysis.result import EvaluationResult
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.store.settings import StoreSettings

GROUPS = ("all", "answerable", "unanswerable")


def print_means(result: EvaluationResult, metric: str) -> None:
    """Print a line for each answerer: its mean over each group of questions."""
    click.echo(f"\n{metric}")
    means: dict[str, dict[str, str]] = {}
    for row in result.answer_summary.to_pylist():
        if row["metric"] == metric and row["mean"] is not None:
            name = f"{row['answerer']}@{row['top_k'] or '-'}"
            text = f"{row['mean']:.4f} [{number(row['low'])}, {number(row['high'])}]"
            means.setdefault(name, {})[row["questions"]] = text
    for name, own in means.items():
        shown = "  ".join(f"{group} {own[group]}" for group in GROUPS if group in own)
        click.echo(f"  {name:<16} {shown}")


def number(value: float | None, form: str = ".4f") -> str:
    """Return a number, or a dash where too few questions define it."""
    return "-" if value is None else format(value, form)


def print_pairs(result: EvaluationResult, metric: str) -> None:
    """Print a line for each pair of answerers."""
    for row in result.answer_comparisons.to_pylist():
        if row["metric"] != metric:
            continue
        low, high = (number(row[bound], "+.4f") for bound in ("low", "high"))
        bounds = f"{number(row['difference'], '+.4f')} [{low}, {high}]"
        tests = f"p {number(row['p_randomisation'])}  Holm {number(row['p_adjusted'])}"
        wins = f"won {row['won']} tied {row['tied']} lost {row['lost']}"
        pair = f"{row['answerer_a']} -> {row['answerer_b']}"
        shows = f"shows {number(row['detectable'])}"
        click.echo(f"  {pair:<28} {bounds}  {tests}  {wins}  {shows}")


def main() -> None:
    """Open the evaluation, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--metrics", nargs="+", default=["answer_em", "answer_f1"])
    asked = parser.parse_args()
    settings = StoreSettings.resolve(asked.store)
    experiment = open_to_read(asked.experiment, settings)
    result = EvaluationResult.current(settings.store / experiment.name)
    for metric in asked.metrics:
        print_means(result, metric)
        print_pairs(result, metric)


if __name__ == "__main__":
    main()
