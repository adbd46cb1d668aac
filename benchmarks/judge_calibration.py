"""Print how often calibrated intervals hold the truth, what they find, and what raw verdicts say.

    python benchmarks/judge_calibration.py
    python benchmarks/judge_calibration.py --repetitions 200 --squad ../shared/data

Judges are simulated from a sensitivity and a specificity; N = 1,000 unlabelled questions. All draws
count: a difference that is shown without an interval, because too few labels differ, is counted by
the interval that it would have had, and how many there were is printed beside.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt

from rag_assets.answers.answer_text import words
from rag_assets.answers.predictions import read_answers
from rag_assets.evaluation.dialects.squad_v2_official import official_scores, read_golds
from rag_assets.statistics.calibration import (
    Estimate,
    calibrated_difference,
    calibrated_mean,
    calibration,
    prediction_powered,
    rogan_gladen,
    t_quantile,
)
from rag_assets.statistics.intervals import wilson

Floats = npt.NDArray[np.float64]
Bounds = tuple[float, float]

N_UNLABELLED = 1000
Z = 1.959963984540054


class Judge(NamedTuple):
    """A simulated truth, and the judge of it."""

    truth: float
    sensitivity: float
    specificity: float
    n: int


ROWS = (
    Judge(0.70, 0.90, 0.80, 100),
    Judge(0.90, 0.80, 0.90, 100),
    Judge(0.90, 0.80, 0.90, 30),
    Judge(0.95, 0.98, 0.50, 50),
    Judge(0.50, 0.70, 0.70, 100),
)


def verdicts_of(
    labels: Floats, sensitivity: float, specificity: float, rng: np.random.Generator
) -> Floats:
    """Return what a judge of these two rates says."""
    return said(labels, sensitivity, specificity, rng.random(labels.shape))


def said(labels: Floats, sensitivity: float, specificity: float, chance: Floats) -> Floats:
    """Return the same by given chances in [0, 1)."""
    return (chance < np.where(labels == 1, sensitivity, 1 - specificity)).astype(np.float64)


def answers_of(truth: float, n: int, rng: np.random.Generator) -> Floats:
    """Return whether each of n answers is right."""
    return (rng.random(n) < truth).astype(np.float64)


class Tally:
    """Counts how often the intervals of one method hold the truth, leave out 0, and how wide."""

    def __init__(self, truth: float) -> None:
        self.truth = truth
        self.held: list[bool] = []
        self.found: list[bool] = []
        self.widths: list[float] = []

    def add(self, low: float, high: float) -> None:
        """Count one interval."""
        self.held.append(low <= self.truth <= high)
        self.found.append(not low <= 0 <= high)
        self.widths.append(high - low)

    @property
    def coverage(self) -> float:
        """Share of the intervals that hold the truth."""
        return float(np.mean(self.held))

    @property
    def discoveries(self) -> float:
        """Share of the intervals that leave out 0."""
        return float(np.mean(self.found))

    @property
    def width(self) -> float:
        """Mean width."""
        return float(np.mean(self.widths))


def around(value: float, half: float) -> Bounds:
    """Return the interval value +- half."""
    return value - half, value + half


def normal(values: Floats) -> Bounds:
    """Return the interval of a mean by the normal distribution."""
    return around(float(values.mean()), Z * float(values.std()) / values.size**0.5)


def powered(labels: Floats, own: Floats, others: Floats, weight: float | None) -> Bounds:
    """Return the interval of ``ppi_py``: variances that divide by n, normal quantile."""
    units = calibration(labels, own, others, None, None)
    estimate = prediction_powered(units, weight=weight, ddof=0)
    return around(estimate.value, Z * estimate.error)


def shown(estimate: Estimate) -> Bounds:
    """Return the bounds of an estimate that has some."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def mean_coverage(row: Judge, repetitions: int, seed: int = 0) -> dict[str, Tally]:
    """Return method -> tally of the intervals of a mean."""
    rng = np.random.default_rng(seed)
    names = ("naive", "Wilson", "PPI", "PPI++", "ours")
    tallies = {name: Tally(row.truth) for name in names}
    for _ in range(repetitions):
        answers = answers_of(row.truth, row.n + N_UNLABELLED, rng)
        verdicts = verdicts_of(answers, row.sensitivity, row.specificity, rng)
        labels, own, others = answers[: row.n], verdicts[: row.n], verdicts[row.n :]
        tallies["naive"].add(*normal(verdicts))
        tallies["Wilson"].add(*wilson(float(labels.mean()), row.n))
        tallies["PPI"].add(*powered(labels, own, others, 1.0))
        tallies["PPI++"].add(*powered(labels, own, others, None))
        estimate = calibrated_mean(labels, own, others)
        tallies["ours"].add(*shown(estimate))
    return tallies


def clustered_mean_coverage(
    truth: float, n_clusters: int, size: int, repetitions: int, seed: int = 0
) -> dict[str, Tally]:
    """Return tallies with clusters as wholes, and with questions taken for independent.

    Half of the clusters are right or wrong as a whole.
    """
    rng = np.random.default_rng(seed)
    tallies = {name: Tally(truth) for name in ("clusters", "questions")}
    names = [f"{number:04}" for number in np.repeat(np.arange(n_clusters + 200), size)]
    n = n_clusters * size
    for _ in range(repetitions):
        alone = answers_of(truth, len(names), rng)
        together = np.repeat(answers_of(truth, n_clusters + 200, rng), size)
        tied = np.repeat(rng.random(n_clusters + 200) < 0.5, size)
        answers = np.where(tied, together, alone)
        verdicts = verdicts_of(answers, 0.9, 0.8, rng)
        parts = answers[:n], verdicts[:n], verdicts[n:]
        for name, clusters in (("clusters", (names[:n], names[n:])), ("questions", None)):
            estimate = calibrated_mean(*parts, clusters=clusters)
            tallies[name].add(*shown(estimate))
    return tallies


class Pair(NamedTuple):
    """Two simulated systems and the judge of both.

    Attributes:
        truth: of the first.
        gain: of the second over the first.
        sensitivity: of the judge.
        specificity: of the judge towards the first system.
        kinder: how much lower its specificity towards the second is.
        n: labelled questions.
        alike: share of the questions where the two answer, and are judged, by the same chance.
    """

    truth: float
    gain: float
    sensitivity: float
    specificity: float
    kinder: float
    n: int
    alike: float


PAIRS = (
    *(
        Pair(row.truth, gain, row.sensitivity, row.specificity, 0.0, 100, 0.0)
        for gain in (0.0, -0.1)
        for row in (ROWS[0], ROWS[1], ROWS[3], ROWS[4])
    ),
    *(Pair(0.7, gain, 0.9, 0.8, 0.2, n, 0.5) for gain in (0.0, 0.1) for n in (100, 200)),
    *(Pair(0.9, gain, 0.8, 0.9, 0.2, n, 0.5) for gain in (0.0, -0.1) for n in (100, 200)),
    Pair(0.95, 0.0, 0.98, 0.5, 0.2, 100, 0.5),
)
"""Two of the five rows are of one judge."""


class DifferenceTallies(NamedTuple):
    """Tallies by method, and the share of draws for which ours shows no interval."""

    tallies: dict[str, Tally]
    without_interval: float


def difference_coverage(
    draws: Iterator[tuple[Floats, Floats, Floats]], truth: float
) -> DifferenceTallies:
    """Return tallies of the intervals of a paired difference.

    ``ours`` counts all draws, ``shown`` only the intervals that are shown: these are what a gate
    can act upon. ``human`` is the interval of the labels alone, by Student's distribution.

    Args:
        draws: differences of labels, of their verdicts, of the other verdicts.
        truth: the difference that intervals should hold.
    """
    tallies = {name: Tally(truth) for name in ("naive", "human", "ours", "shown")}
    without = []
    for labels, own, others in draws:
        tallies["naive"].add(*normal(np.concatenate([own, others])))
        units = calibration(labels, own, others, None, None)
        quantile = t_quantile(0.95, labels.size)
        for name, weight in (("human", 0.0), ("ours", None)):
            plain = prediction_powered(units, weight=weight)
            tallies[name].add(*around(plain.value, quantile * plain.error))
        estimate = calibrated_difference(labels, own, others)
        without.append(estimate.low is None)
        if estimate.low is not None:
            tallies["shown"].add(*shown(estimate))
    return DifferenceTallies(tallies, float(np.mean(without)))


def simulated_pairs(
    pair: Pair, repetitions: int, seed: int = 0
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield draws of differences, second system minus first."""
    rng = np.random.default_rng(seed)
    n_all = pair.n + N_UNLABELLED
    kindness = pair.specificity - pair.kinder
    for _ in range(repetitions):
        chance, noise, *own = rng.random((4, n_all))
        alike = rng.random(n_all) < pair.alike
        first = (chance < pair.truth).astype(np.float64)
        second = (np.where(alike, chance, own[0]) < pair.truth + pair.gain).astype(np.float64)
        verdicts = said(second, pair.sensitivity, kindness, np.where(alike, noise, own[1]))
        verdicts -= said(first, pair.sensitivity, pair.specificity, noise)
        yield (second - first)[: pair.n], verdicts[: pair.n], verdicts[pair.n :]


def moved_prevalence(repetitions: int, seed: int = 0) -> dict[str, Tally]:
    """Return tallies where 200 labels are of a time when .7 were right, and .5 are now."""
    rng = np.random.default_rng(seed)
    tallies = {name: Tally(0.5) for name in ("Rogan-Gladen", "calibrated_mean")}
    for _ in range(repetitions):
        labels = answers_of(0.7, 200, rng)
        own = verdicts_of(labels, 0.9, 0.8, rng)
        others = verdicts_of(answers_of(0.5, N_UNLABELLED, rng), 0.9, 0.8, rng)
        for name, estimator in (
            ("Rogan-Gladen", rogan_gladen),
            ("calibrated_mean", calibrated_mean),
        ):
            estimate = estimator(labels, own, others)
            tallies[name].add(*shown(estimate))
    return tallies


class SquadPair(NamedTuple):
    """Differences, bert minus nlnet, on the answerable questions of SQuAD 2.0 dev."""

    labels: Floats
    verdicts: Floats


def squad_pair(data: Path) -> SquadPair:
    """Return labels, the official exact match, and verdicts: the answer shares a word with a gold.

    Args:
        data: the folder that holds ``squad_dev_v2`` and ``squad_predictions``.
    """
    golds = read_golds(data / "squad_dev_v2" / "dev-v2.0.rebuilt.json")
    answerable = [query_id for query_id, texts in golds.items() if texts]
    columns: list[Floats] = []
    for system in ("nlnet", "bert"):
        rows = read_answers(data / "squad_predictions" / f"{system}.json")
        predictions = {query_id: row["answer"] for query_id, row in rows.items()}
        exact = official_scores(golds, predictions).per_question
        shares = (
            any(not set(words(predictions[q])).isdisjoint(words(gold)) for gold in golds[q])
            for q in answerable
        )
        columns += [
            np.array([exact[q][0] for q in answerable]),
            np.fromiter(shares, np.float64, len(answerable)),
        ]
    return SquadPair(columns[2] - columns[0], columns[3] - columns[1])


def drawn_pairs(
    pair: SquadPair, n: int, repetitions: int, seed: int = 0
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield draws of n labelled questions; all others have a verdict alone."""
    rng = np.random.default_rng(seed)
    for _ in range(repetitions):
        order = rng.permutation(pair.labels.size)
        yield pair.labels[order[:n]], pair.verdicts[order[:n]], pair.verdicts[order[n:]]


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    for cells in (head, ["---"] * len(head), *rows):
        texts = (f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells)
        click.echo(f"| {' | '.join(texts)} |")
    click.echo()


def print_means(repetitions: int) -> None:
    """Print the coverage of means."""
    rows: list[list[object]] = []
    for row in (*ROWS, ROWS[2]._replace(n=50), ROWS[3]._replace(n=100), ROWS[3]._replace(n=200)):
        tallies = mean_coverage(row, repetitions)
        widths = [f"{tallies[name].width:.3f}" for name in ("Wilson", "PPI++", "ours")]
        held = [tally.coverage for tally in tallies.values()]
        rows.append([" ".join(map(str, row)), *held, " / ".join(widths)])
    head = ["truth sens spec n", "naive", "Wilson", "PPI", "PPI++ (z)", "ours"]
    print_table([*head, "width Wilson / PPI++ / ours"], rows)


def print_others(repetitions: int) -> None:
    """Print the coverage with clusters, and with labels of another time."""
    rows: list[list[object]] = []
    for truth, n_clusters, size in ((0.7, 100, 5), (0.9, 60, 5), (0.9, 30, 5)):
        clustered = clustered_mean_coverage(truth, n_clusters, size, repetitions)
        rows.append([f"{truth} {n_clusters} x {size}", *(t.coverage for t in clustered.values())])
    print_table(["truth, labelled clusters", "as wholes", "taken for questions"], rows)
    moved = moved_prevalence(repetitions)
    print_table(list(moved), [[tally.coverage for tally in moved.values()]])


HEAD = (
    "human held",
    "ours held, all draws",
    "shown held",
    "not shown",
    "naive leaves out 0",
    "human leaves out 0",
    "ours shown and leaves out 0",
)


def difference_row(found: DifferenceTallies) -> list[object]:
    """Return the cells below :data:`HEAD`."""
    tallies, without = found
    shown = tallies["shown"]
    return [
        tallies["human"].coverage,
        tallies["ours"].coverage,
        shown.coverage if shown.held else "-",
        without,
        tallies["naive"].discoveries,
        tallies["human"].discoveries,
        sum(shown.found) / len(tallies["ours"].held),
    ]


def print_differences(repetitions: int) -> None:
    """Print coverage, false alarms and power of paired differences."""
    rows = [
        [
            " ".join(map(str, pair)),
            *difference_row(difference_coverage(simulated_pairs(pair, repetitions), pair.gain)),
        ]
        for pair in PAIRS
    ]
    print_table(["truth gain sens spec kinder n alike", *HEAD], rows)


def print_squad(data: Path, repetitions: int) -> None:
    """Print the same for two published systems."""
    pair = squad_pair(data)
    truth = float(pair.labels.mean())
    click.echo(f"SQuAD, bert - nlnet: {truth:+.4f}, by the judge {pair.verdicts.mean():+.4f}\n")
    rows = [
        [n, *difference_row(difference_coverage(drawn_pairs(pair, n, repetitions), truth))]
        for n in (100, 200, 400)
    ]
    print_table(["labels", *HEAD], rows)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--squad", type=Path, help="folder with squad_dev_v2 and squad_predictions")
    options = parser.parse_args()
    print_means(options.repetitions)
    print_others(options.repetitions)
    print_differences(options.repetitions)
    if options.squad is not None:
        print_squad(options.squad, options.repetitions)


if __name__ == "__main__":
    main()
