"""Print what a sample of labels tells of an evaluated experiment, against all of its labels.

    python benchmarks/label_sampling.py EXPERIMENT.yaml --store STORE
    python benchmarks/label_sampling.py EXPERIMENT.yaml --tables order null --repetitions 100

The labels of the experiment are taken as the truth about its pool (depth 10), relevant or not. Then
they are hidden, items are asked as a page would ask them, and each table says what came out:

- ``order``: Kendall's tau of the order of systems, and the loss of choosing the apparent winner;
- ``items``: intervals for these questions and this pool, six systems joining half way, a tenth of
  the items skipped;
- ``questions``: intervals for questions like these, questions resampled;
- ``judges``: both with the verdicts of a judge who is right in .8 / .85, and of one who also likes
  everything that one system has; the raw verdicts beside them;
- ``null``: a system and its copy in which documents of the same label changed places, looked at
  after every judgment;
- ``power``: how many real differences are decided, and how often a true one is excluded;
- ``forecast``: how often what it took to decide a difference lies in the forecast, and where not;
- ``share``: the winner after a quarter of the pool.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from rag_assets.evaluation.metric_names import Metric
from rag_assets.labels.pool import Flags, Floats, LabelPool, label_pool
from rag_assets.labels.sampling.confidence_sequence import contrasts_of, course_of, decisions
from rag_assets.labels.sampling.design import Design, disagreement, new_design
from rag_assets.labels.sampling.estimates import Estimate, Estimator
from rag_assets.labels.sampling.label_sample import LabelSample
from rag_assets.labels.sampling.sample_stage import sampled_passages
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.settings import StoreSettings

DEPTH = 10
DCG, PRECISION = Metric("dcg", DEPTH), Metric("precision", DEPTH)
SENSITIVITY, SPECIFICITY = 0.8, 0.85
LIKED = 0.5
"""Chance that the judge of bad faith calls a passage of its favourite relevant, whatever it is."""

JOINING = 6
SKIPPED = 0.1


class Known(NamedTuple):
    """A pool, and the truth about its items."""

    pool: LabelPool
    design: Design
    labels: Floats

    @property
    def n_questions(self) -> int:
        """How many questions there are."""
        return len(self.pool.question_ids)

    def values(self, metric: Metric = DCG) -> Floats:
        """Return the metric of each system with all labels."""
        return np.asarray(self.pool.weights(metric) @ self.labels / self.n_questions)


def looks(sample: LabelSample, metric: Metric, contrasts: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of 95 % after each judgment, shape (contrasts, judgments)."""
    course = course_of(sample, metric, contrasts, 0.05)
    return course.lows[:, 1:], course.highs[:, 1:]


def known(pipeline: Pipeline) -> Known:
    """Return the pool of an experiment, and what its labels say of the items."""
    passages = sampled_passages(pipeline.experiment, pipeline.artifact, DEPTH)
    questions = pipeline.artifact(QUERIES_KEY).table().column("query_id").to_pylist()
    pool = label_pool(passages, questions, DEPTH)
    labels = np.zeros(len(pool.items))
    grades = [grade or 0 for table in passages.values() for grade in table["label"].to_pylist()]
    np.maximum.at(labels, pool.item, np.array(grades) > 0)
    return of_pool(pool, labels)


def of_pool(pool: LabelPool, labels: Floats) -> Known:
    """Return a pool with its truth and the design of its sample."""
    return Known(pool, new_design(pool.items, pool.weights(DCG)), labels)


def asked(truth: Known, design: Design, n: int, answers: Flags | None = None) -> LabelSample:
    """Return the first ``n`` items with their labels; those without an answer were skipped."""
    touched = np.zeros(len(truth.labels), np.bool_)
    touched[design.order()[:n]] = True
    judged = touched if answers is None else touched & answers
    nothing = np.zeros_like(touched)
    grades = np.where(judged, truth.labels, np.nan)
    return LabelSample(truth.pool, design, grades, nothing, nothing, touched)


def redrawn(truth: Known, generator: np.random.Generator) -> Design:
    """Return the design with other random numbers."""
    return replace(truth.design, numbers=generator.exponential(size=len(truth.labels)))


def joined(truth: Known, generator: np.random.Generator, n: int) -> LabelSample:
    """Return ``n`` items of which half were asked before the last six systems were there."""
    pool, first = truth.pool, len(truth.pool.systems) - JOINING
    weights = pool.weights(DCG)
    is_old = (weights[:first] > 0).any(axis=0)
    rates = np.zeros((2, len(pool.items)))
    rates[0, is_old] = disagreement(weights[:first, is_old])
    rates[1] = np.maximum(disagreement(weights), rates[0])
    numbers = generator.exponential(size=len(pool.items))
    early = replace(truth.design, numbers=numbers, rates=rates[:1])
    end = float(np.sort(early.arrivals())[n // 2 - 1])
    design = replace(early, rates=rates, durations=(end,))
    return asked(truth, design, n, generator.random(len(pool.items)) >= SKIPPED)


def resampled(truth: Known, generator: np.random.Generator) -> Known:
    """Return as many questions, drawn with replacement, each with items of its own."""
    pool = truth.pool
    drawn = generator.integers(0, truth.n_questions, truth.n_questions)
    items_of = [np.flatnonzero(pool.question == one) for one in range(truth.n_questions)]
    of_item = np.argsort(pool.item, kind="stable")
    starts = np.searchsorted(pool.item[of_item], np.arange(len(pool.items) + 1))
    chosen = np.concatenate([items_of[one] for one in drawn])
    question = np.repeat(np.arange(len(drawn)), [len(items_of[one]) for one in drawn])
    counts = starts[chosen + 1] - starts[chosen]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = of_item[np.repeat(starts[chosen], counts) + offsets]
    drawn_pool = replace(
        pool,
        items=tuple(pool.items[one] for one in chosen),
        question=question,
        system=pool.system[rows],
        item=np.repeat(np.arange(len(chosen)), counts),
        rank=pool.rank[rows],
    )
    return of_pool(drawn_pool, truth.labels[chosen])


class Quality:
    """How often intervals of several numbers hold the truth, over repetitions."""

    def __init__(self, truths: Floats) -> None:
        """Begin with nothing."""
        self._truths, self._rows = truths, np.zeros((3, len(truths)))
        self._n = 0

    def add(self, estimates: Iterable[Estimate]) -> None:
        """Count the estimates of one repetition."""
        value, error, low, high = np.array([one[:4] for one in estimates]).T
        self._rows[0] += (low <= self._truths) & (self._truths <= high)
        self._rows[1] += value - self._truths
        self._rows[2] += error
        self._n += 1

    def line(self) -> str:
        """Return mean and worst coverage, and the largest mean error in standard errors."""
        coverage = self._rows[0] / self._n
        bias = np.abs(self._rows[1] / self._rows[2])
        return (
            f"coverage mean {coverage.mean():.4f}, worst {coverage.min():.3f}, "
            f"below .88: {int((coverage < 0.88).sum())} of {len(coverage)}; "
            f"mean error {bias.mean():.3f} of the standard error, largest {bias.max():.3f}"
        )


def between(values: Floats) -> Floats:
    """Return all differences of two values, in the order in which pairs are estimated."""
    firsts, seconds = np.triu_indices(len(values), 1)
    return np.asarray(values[firsts] - values[seconds])


def verdicts_of(truth: Known, generator: np.random.Generator, favourite: str | None) -> Floats:
    """Return the verdicts of a judge; of a favourite it likes half of what is irrelevant."""
    chance = np.where(truth.labels > 0, SENSITIVITY, 1 - SPECIFICITY)
    verdicts = generator.random(len(chance)) < chance
    if favourite is not None:
        row = truth.pool.weights(DCG)[truth.pool.systems.index(favourite)]
        verdicts |= (row > 0) & (generator.random(len(chance)) < LIKED)
    return verdicts.astype(np.float64)


def tau_and_loss(estimates: Floats, truths: Floats) -> tuple[float, float]:
    """Return Kendall's tau, and what is lost by taking the highest estimate."""
    from scipy.stats import kendalltau

    loss = 1 - truths[estimates.argmax()] / truths.max()
    return float(kendalltau(estimates, truths)[0]), float(loss)


def top_first(truth: Known, n: int) -> Floats:
    """Return the values when the top of the pool is judged first and the rest counts as bad."""
    weights = truth.pool.weights(DCG)
    best, judged = weights.max(axis=0), np.zeros(len(truth.labels), np.bool_)
    for question in range(truth.n_questions):
        items = np.flatnonzero(truth.pool.question == question)
        judged[items[np.argsort(-best[items], kind="stable")[: n // truth.n_questions]]] = True
    return np.asarray(weights @ (truth.labels * judged) / truth.n_questions)


def order_table(truth: Known, repetitions: int) -> None:
    """Print tau and loss without a judge, beside the order of the pool's top."""
    truths = truth.values()
    for each in (2, 4, 8):
        generator = np.random.default_rng(each)
        n = each * truth.n_questions
        rows = [
            tau_and_loss(
                Estimator(asked(truth, redrawn(truth, generator), n), DCG).values(), truths
            )
            for _ in range(repetitions)
        ]
        tau, loss = np.mean(rows, axis=0)
        top = tau_and_loss(top_first(truth, n), truths)
        click.echo(
            f"order: {each} a query: tau {tau:.4f}, loss {loss:.2%}; "
            f"top of the pool first: tau {top[0]:.4f}, loss {top[1]:.2%}"
        )


def items_table(truth: Known, repetitions: int) -> None:
    """Print the coverage of differences for these items."""
    draws: dict[str, Callable[[np.random.Generator, int], LabelSample]] = {
        "six join, a tenth skipped": lambda g, n: joined(truth, g, n),
        "all systems from the start": lambda g, n: asked(truth, redrawn(truth, g), n),
    }
    for name, draw in draws.items():
        for each in (4, 8):
            generator, pairs = np.random.default_rng(each), Quality(between(truth.values()))
            for _ in range(repetitions):
                sample = draw(generator, each * truth.n_questions)
                pairs.add(Estimator(sample, DCG).differences().values())
            click.echo(f"items: {each} a query, {name}: {pairs.line()}")


def questions_table(truth: Known, repetitions: int) -> None:
    """Print the coverage of differences and means for questions like these."""
    for each in (4, 8):
        generator = np.random.default_rng(each)
        means, pairs = Quality(truth.values()), Quality(between(truth.values()))
        for _ in range(repetitions):
            other = resampled(truth, generator)
            sample = asked(other, redrawn(other, generator), each * other.n_questions)
            estimator = Estimator(sample, DCG)
            means.add(estimator.estimates("questions").values())
            pairs.add(estimator.differences("questions").values())
        click.echo(f"questions: {each} a query, differences: {pairs.line()}")
        click.echo(f"questions: {each} a query, means: {means.line()}")


def judges_table(truth: Known, repetitions: int) -> None:
    """Print order and coverage with the verdicts of two judges as control variate."""
    favourite = truth.pool.systems[int(np.argsort(-truth.values())[len(truth.pool.systems) // 3])]
    for name, liked in (("fair judge", None), (f"judge who likes {favourite}", favourite)):
        verdicts = verdicts_of(truth, np.random.default_rng(77), liked)
        raw = truth.pool.weights(DCG) @ verdicts
        tau, loss = tau_and_loss(raw, truth.values())
        click.echo(f"judges: {name}, raw: tau {tau:.4f}, loss {loss:.2%}")
        for each in (4, 8):
            judged_table(truth, verdicts, f"{name}, {each} a query", each, repetitions)


def judged_table(truth: Known, verdicts: Floats, name: str, each: int, repetitions: int) -> None:
    """Print order and coverage with verdicts."""
    for metric in (PRECISION, DCG):
        truths, rows = truth.values(metric), []
        means, pairs = Quality(truths), Quality(between(truths))
        generator = np.random.default_rng(each)
        for _ in range(repetitions):
            sample = asked(truth, redrawn(truth, generator), each * truth.n_questions)
            estimator = Estimator(replace(sample, verdicts={"judge": verdicts}), metric)
            rows.append(tau_and_loss(estimator.values(), truths))
            means.add(estimator.estimates().values())
            pairs.add(estimator.differences().values())
        tau, loss = np.mean(rows, axis=0)
        click.echo(f"judges: {name}, {metric}: tau {tau:.4f}, loss {loss:.2%}")
        click.echo(f"judges: {name}, {metric} means: {means.line()}")
        click.echo(f"judges: {name}, {metric} differences: {pairs.line()}")


def with_copy(truth: Known, system: str) -> Known:
    """Return the pool with a copy of a system whose documents of one label changed places."""
    pool, generator = truth.pool, np.random.default_rng(3)
    rows = np.flatnonzero(pool.system == pool.systems.index(system))
    items = pool.item[rows].copy()
    for question in range(truth.n_questions):
        for label in (0.0, 1.0):
            same = (pool.question[items] == question) & (truth.labels[items] == label)
            places = np.flatnonzero(same)
            items[places] = items[generator.permutation(places)]
    copied = replace(
        pool,
        systems=(*pool.systems, f"{system} copied"),
        system=np.concatenate([pool.system, np.full(len(rows), len(pool.systems))]),
        item=np.concatenate([pool.item, items]),
        rank=np.concatenate([pool.rank, pool.rank[rows]]),
    )
    return of_pool(copied, truth.labels)


def null_table(truth: Known, repetitions: int) -> None:
    """Print how often a difference of nothing was ever called."""
    best = truth.pool.systems[int(truth.values().argmax())]
    other = with_copy(truth, best)
    pair = [(best, other.pool.systems[-1])]
    generator, called, values = np.random.default_rng(1), 0, other.values()
    for _ in range(repetitions):
        sample = asked(other, redrawn(other, generator), 8 * other.n_questions)
        lows, highs = looks(sample, DCG, contrasts_of(sample, DCG, pair))
        called += bool(((lows > 1e-12) | (highs < -1e-12)).any())
    click.echo(
        f"null: full-label difference {values[other.pool.systems.index(best)] - values[-1]:.1g}"
        f", a look after each of {8 * other.n_questions} judgments: called in {called} of "
        f"{repetitions} histories ({called / repetitions:.1%})"
    )


def power_table(truth: Known, repetitions: int) -> None:
    """Print which differences are decided, and how often the true one is excluded."""
    systems, values = truth.pool.systems, truth.values()
    firsts, seconds = np.triu_indices(len(systems), 1)
    pairs = [(systems[a], systems[b]) for a, b in zip(firsts, seconds, strict=True)]
    truths = values[firsts] - values[seconds]
    large = np.abs(truths) > 0.05 * np.maximum(values[firsts], values[seconds])
    generator, excluded = np.random.default_rng(2), np.zeros(len(pairs))
    decided = np.zeros((2, len(pairs)))
    for _ in range(repetitions):
        sample = asked(truth, redrawn(truth, generator), 8 * truth.n_questions)
        lows, highs = looks(sample, DCG, contrasts_of(sample, DCG, pairs))
        outside = (lows > truths[:, None] + 1e-12) | (highs < truths[:, None] - 1e-12)
        excluded += outside.any(axis=1)
        for row, each in enumerate((4, 8)):
            until = slice(0, each * truth.n_questions)
            decided[row] += ((lows[:, until] > 0) | (highs[:, until] < 0)).any(axis=1)
    shares = decided[:, large].mean(axis=1) / repetitions
    click.echo(
        f"power: of the {int(large.sum())} pairs more than 5 % apart {shares[0]:.1%} are decided "
        f"at 4 a query, {shares[1]:.1%} at 8; the full-label difference is ever excluded in "
        f"{excluded.mean() / repetitions:.1%}, at most {excluded.max() / repetitions:.1%} of a pair"
    )


def forecast_table(truth: Known, repetitions: int) -> None:
    """Print how often what it took lies in the forecast of how much more decides a difference."""
    systems, n = truth.pool.systems, len(truth.labels)
    firsts, seconds = np.triu_indices(len(systems), 1)
    pairs = [(systems[a], systems[b]) for a, b in zip(firsts, seconds, strict=True)]
    for each in (2, 4, 8):
        generator, rows = np.random.default_rng(each), []
        for _ in range(repetitions):
            design = redrawn(truth, generator)
            chosen = [pairs[one] for one in generator.choice(len(pairs), 40, replace=False)]
            whole = asked(truth, design, n)
            lows, highs = looks(whole, DCG, contrasts_of(whole, DCG, chosen))
            outside = (lows > 0) | (highs < 0)
            took = np.where(outside.any(axis=1), outside.argmax(axis=1) + 1, n)
            so_far = each * truth.n_questions
            found = decisions(asked(truth, design, so_far), DCG, pairs=chosen)
            rows += [
                (one.more_low <= more, more <= one.more_high)
                for one, more in zip(found.values(), (took - so_far).tolist(), strict=True)
                if not one.decided and more > 0
            ]
        above, below = np.array(rows).T
        click.echo(
            f"forecast: {each} a query, {len(rows)} open differences: what it took lies within in "
            f"{(above & below).mean():.1%}, above in {(~below).mean():.1%}"
        )


def share_table(truth: Known, repetitions: int) -> None:
    """Print the winner after a quarter of the pool."""
    generator, n = np.random.default_rng(4), len(truth.labels) // 4
    rows = [
        tau_and_loss(
            Estimator(asked(truth, redrawn(truth, generator), n), DCG).values(), truth.values()
        )
        for _ in range(repetitions)
    ]
    tau, loss = np.array(rows).T
    right = float((loss <= 0.01).mean())
    chance = (right * (1 - right) / repetitions) ** 0.5
    click.echo(
        f"share: {n} of {len(truth.labels)} items: tau {tau.mean():.4f}, loss {loss.mean():.2%}, "
        f"loss at most 1 % in {right:.1%} of {repetitions} (standard error {chance:.1%})"
    )


TABLES: dict[str, Callable[[Known, int], None]] = {
    "order": order_table,
    "items": items_table,
    "questions": questions_table,
    "judges": judges_table,
    "null": null_table,
    "power": power_table,
    "forecast": forecast_table,
    "share": share_table,
}


def main() -> None:
    """Open the evaluation, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--repetitions", type=int, default=500)
    given = parser.parse_args()
    settings = StoreSettings.resolve(given.store)
    truth = known(Pipeline(open_to_read(given.experiment, settings), settings))
    click.echo(
        f"{len(truth.pool.systems)} systems, {truth.n_questions} questions, "
        f"{len(truth.labels)} items, {truth.labels.mean():.1%} relevant"
    )
    for name in given.tables:
        TABLES[name](truth, given.repetitions)


if __name__ == "__main__":
    main()
