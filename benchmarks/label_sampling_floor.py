"""Print what the floor of the rates costs and brings, on one half of the questions and the other.

    python benchmarks/label_sampling_floor.py EXPERIMENT.yaml --store STORE --repetitions 400

A low floor asks where systems disagree and nowhere else: their order is told a little better, their
own values much worse. It is chosen on the even questions, as the least with which the values err by
at most 5 % more (root mean square over systems and repetitions) than with the best one, at 4 and at
8 judgments a question; the odd questions tell whether that holds.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from label_sampling import DCG, Known, asked, between, known, redrawn, tau_and_loss

from rag_assets.labels.sampling.design import disagreement
from rag_assets.labels.sampling.estimates import Estimator
from rag_assets.pipeline.evaluation_names import open_to_read
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.settings import StoreSettings

FLOORS = (0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 1.2, 2.0)
MORE = 1.05


def half(truth: Known, parity: int) -> Known:
    """Return the pool of the even or of the odd questions."""
    pool = truth.pool
    items = np.flatnonzero(pool.question % 2 == parity)
    number = np.full(len(pool.items), -1)
    number[items] = np.arange(len(items))
    rows = np.flatnonzero(number[pool.item] >= 0)
    chosen = replace(
        pool,
        items=tuple(pool.items[one] for one in items),
        question_ids=pool.question_ids[parity::2],
        question=pool.question[items] // 2,
        system=pool.system[rows],
        item=number[pool.item[rows]],
        rank=pool.rank[rows],
    )
    design = replace(
        truth.design, items=chosen.items, numbers=truth.design.numbers[items], rates=np.empty(0)
    )
    return Known(chosen, design, truth.labels[items])


def errors(truth: Known, floor: float, each: int, repetitions: int) -> tuple[float, str]:
    """Return the error of the values with a floor, and a line about all."""
    rates = disagreement(truth.pool.weights(DCG), floor)[None, :]
    own = truth._replace(design=replace(truth.design, rates=rates))
    truths, generator = own.values(), np.random.default_rng(each)
    squares, rows = np.zeros(2), []
    for _ in range(repetitions):
        sample = asked(own, redrawn(own, generator), each * own.n_questions)
        values = Estimator(sample, DCG).values()
        squares += np.mean((values - truths) ** 2), np.mean((between(values - truths)) ** 2)
        rows.append(tau_and_loss(values, truths))
    value, difference = np.sqrt(squares / repetitions).tolist()
    tau, loss = np.mean(rows, axis=0)
    line = f"values err by {value:.4f}, differences by {difference:.4f}; tau {tau:.4f}"
    return value, f"{line}, loss {loss:.2%}"


def main() -> None:
    """Open the evaluation, print a line for each half, number of judgments and floor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--repetitions", type=int, default=400)
    given = parser.parse_args()
    settings = StoreSettings.resolve(given.store)
    truth = known(Pipeline(open_to_read(given.experiment, settings), settings))
    for parity, name in enumerate(("even", "odd")):
        own = half(truth, parity)
        for each in (4, 8):
            found = {}
            for floor in FLOORS:
                found[floor], line = errors(own, floor, each, given.repetitions)
                click.echo(f"{name} questions, {each} a query, floor {floor}: {line}")
            best = min(found.values())
            least = min(floor for floor, error in found.items() if error <= MORE * best)
            click.echo(f"{name} questions, {each} a query: the least floor is {least}")


if __name__ == "__main__":
    main()
