"""How often the gate raises a false alarm, and finds a true drop, by a judge that likes one system.

    python benchmarks/judged_gate.py [--repetitions N]

Every repetition draws the true answers of two systems, a judge's verdicts on them, and the
questions that people label. "gate" is a look as `rag-assets gate` takes it: the drop of the
calibrated mean against no drop, one-sided, at .05 / 20. "one test" is the same at .05, and so are
those on the verdicts alone and on the labels alone. The judge sees a right answer as right with the
sensitivity, and a wrong one as wrong with the specificity, of the system whose answer it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
import numpy as np

from rag_assets.analysis.metric_sources import drop_test
from rag_assets.judges.calibration import Sample, estimated_row
from rag_assets.statistics.calibration import calibrated_difference
from rag_assets.statistics.paired_differences import look_level
from rag_assets.statistics.units import Counted

ALPHA = 0.05
Z = -1.6449
"""The quantile of the normal distribution at ALPHA."""

TESTS = ("gate", "one test", "verdicts alone", "labels alone")


@dataclass(frozen=True)
class World:
    """Two systems and a judge.

    Attributes:
        truth: share of right answers, before and after.
        sensitivity: of the judge, likewise.
        specificity: likewise.
        n_labels: questions that people label.
        n_questions: all questions.
    """

    truth: tuple[float, float] = (0.7, 0.7)
    sensitivity: tuple[float, float] = (0.9, 0.9)
    specificity: tuple[float, float] = (0.6, 0.8)
    n_labels: int = 100
    n_questions: int = 1000


WORLDS: Mapping[str, World] = {
    "equal, fair judge": World(specificity=(0.8, 0.8)),
    "equal, judge likes the old": World(),
    "equal, judge likes the old, 200 labels": World(n_labels=200),
    "equal, judge likes the old more": World(sensitivity=(0.95, 0.8), specificity=(0.5, 0.9)),
    "drop of .10, judge likes the new": World((0.7, 0.6), specificity=(0.8, 0.6)),
    "drop of .10, judge likes the new, 200 labels": World(
        (0.7, 0.6), specificity=(0.8, 0.6), n_labels=200
    ),
}


def alarms(world: World, repetitions: int, seed: int) -> dict[str, float]:
    """Return in which share of repetitions each test says that the mean dropped."""
    random = np.random.default_rng(seed)
    ids = tuple(f"q{number}" for number in range(world.n_questions))
    counted = Counted("all", ids, np.ones(len(ids)), ids)
    nowhere = np.zeros(len(ids), dtype=np.bool_)
    found = dict.fromkeys(TESTS, 0)
    for _ in range(repetitions):
        truths = [random.random(len(ids)) < share for share in world.truth]
        verdicts = [
            random.random(len(ids)) < np.where(right, sensitivity, 1 - specificity)
            for right, sensitivity, specificity in zip(
                truths, world.sensitivity, world.specificity, strict=True
            )
        ]
        drawn = nowhere.copy()
        drawn[random.choice(len(ids), world.n_labels, replace=False)] = True
        label, verdict = ((b * 1.0 - a * 1.0) for a, b in (truths, verdicts))
        sample = Sample(counted, drawn)
        row = estimated_row(calibrated_difference, sample, verdict, label, nowhere, 1 - ALPHA)
        p = drop_test(row)[0]
        found["gate"] += p < look_level(ALPHA)
        found["one test"] += p < ALPHA
        human = {**row, "calibrated": row["human"], "low": row["human_low"]}
        found["labels alone"] += drop_test({**human, "high": row["human_high"]})[0] < ALPHA
        z = verdict.mean() / (verdict.std(ddof=1) / len(ids) ** 0.5)
        found["verdicts alone"] += bool(z < Z)
    return {name: count / repetitions for name, count in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=2000)
    repetitions = parser.parse_args(arguments).repetitions
    lines = [f"{'':46}" + "".join(f"{name:>16}" for name in TESTS)]
    for number, (name, world) in enumerate(WORLDS.items()):
        shares = alarms(world, repetitions, number)
        lines.append(f"{name:46}" + "".join(f"{shares[test]:>16.3f}" for test in TESTS))
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
