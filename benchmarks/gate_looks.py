"""How often a year of gates raises a false alarm, and how often it finds a true drop.

    python benchmarks/gate_looks.py [--histories N]

A history is a year of nightly evaluations of 216 questions against one anchor, with 20 distinct
changes. The other nights repeat a state that was looked at, and are not tested. It is decided as
`rag-assets gate` decides: the one-sided randomisation test, over clusters, each look at alpha / 20,
corrected for the gated retrievers together, and a drop above --max-drop. Beside it a test of each
retriever and each night at alpha.

Half of the questions do not move; a difference has the standard deviation .2, as nDCG@10 of two
chunkings has. "independent": each change is one of the anchor's state. "walk": each change is one
of the state before it, so that looks are alike, and ever farther from the anchor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from rag_assets.statistics.paired_differences import (
    LOOKS,
    PairedDifferences,
    look_level,
    look_p_values,
)
from rag_assets.statistics.units import Counted, Floats, Resampling

ALPHA, MAX_DROP = 0.05, 0.01
QUESTIONS, DEVIATION = 216, 0.2
NIGHTS = 365
LOST_SHARE = 0.1
"""A true drop is on so many of the questions."""

COLUMNS = 500
"""Tests at once."""

PATTERNS = 2000
"""Sign patterns of the first test; what is near the level gets those of the gate."""


@dataclass(frozen=True)
class World:
    """How the differences of a history from its anchor come about.

    Attributes:
        name: what is printed.
        retrievers: so many are gated, each on its own.
        cluster: so many questions share their fate.
        copies: whether all retrievers are one.
        walk: whether each change is one of the state before.
        drop: true drop of every state.
    """

    name: str
    retrievers: int = 1
    cluster: int = 1
    copies: bool = False
    walk: bool = False
    drop: float = 0.0


NULL_WORLDS = (
    World("independent"),
    World("walk", walk=True),
    World("independent, 4 retrievers", retrievers=4),
    World("4 copies of one retriever", retrievers=4, copies=True),
    World("independent, clusters of 3", cluster=3),
)


def differences(world: World, random: np.random.Generator) -> Floats:
    """Return new - old of one history, shape (looks, retrievers, questions)."""
    shape = (LOOKS, world.retrievers, QUESTIONS // world.cluster)
    fall = world.drop / LOST_SHARE
    spread = DEVIATION**2 - LOST_SHARE * (1 - LOST_SHARE) * fall**2
    moved = np.where(random.random(shape) < 0.5, random.normal(0, (2 * spread) ** 0.5, shape), 0.0)
    if world.walk:
        moved = np.cumsum(moved, axis=0)
    lost = np.where(random.random(shape) < LOST_SHARE, fall, 0.0)
    apart = moved - lost
    if world.copies:
        apart = np.repeat(apart[:, :1], world.retrievers, axis=1)
    return np.repeat(apart, world.cluster, axis=2)


def outcomes(world: World, histories: int, seed: int) -> dict[str, Any]:
    """Return which looks of which histories fail, shape (histories, looks), by each rule."""
    random = np.random.default_rng(seed)
    names = [f"c{number // world.cluster:03}" for number in range(QUESTIONS)]
    found: dict[str, list[list[bool]]] = {"gate": [], "before": []}
    queries = tuple(f"q{number:03}" for number in range(QUESTIONS))
    counted = Counted("all", queries, np.ones(QUESTIONS), tuple(names))
    patterns = Resampling(resamples=PATTERNS)
    step = max(1, COLUMNS // (LOOKS * world.retrievers))
    for start in range(0, histories, step):
        block = np.stack([differences(world, random) for _ in range(min(step, histories - start))])
        columns = PairedDifferences(counted, block.reshape(-1, QUESTIONS).T)
        large = -block.mean(axis=3) > MAX_DROP
        alone = np.array(columns.p_values(patterns, "less"), dtype=np.float64)
        p_values = alone.reshape(large.shape)
        # No correction makes a p smaller, and no finer test one that is ten times the level.
        adjusted = np.ones(large.shape)
        for place in np.argwhere((p_values < 10 * look_level(ALPHA)).any(axis=2)):
            look = PairedDifferences(counted, block[tuple(place)].T)
            adjusted[tuple(place)] = look_p_values(look, patterns, ALPHA)
        fails = {"gate": adjusted < look_level(ALPHA), "before": p_values < ALPHA}
        for rule, each in fails.items():
            found[rule] += (large & each).any(axis=2).tolist()
    return {rule: np.array(rows) for rule, rows in found.items()}


def nights_tested(random: np.random.Generator) -> int:
    """Return how many of the nights are new looks, where states come at random and may return."""
    changes = np.sort(random.choice(np.arange(1, NIGHTS), LOOKS, replace=False))
    states = np.searchsorted(changes, np.arange(NIGHTS), side="right")
    return len(set(states[states > 0].tolist()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print false alarms, then power."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=2000)
    histories = parser.parse_args(arguments).histories
    tested = nights_tested(np.random.default_rng(0))
    click.echo(f"{histories} histories of {NIGHTS} nights, {tested} of them tested\n")
    click.echo(f"{'a history ever fails without a drop':46}{'gate':>10}{'before':>10}")
    for number, world in enumerate(NULL_WORLDS):
        ever = {
            rule: rows.any(axis=1).mean()
            for rule, rows in outcomes(world, histories, number).items()
        }
        click.echo(f"{world.name:46}{ever['gate']:>10.3f}{ever['before']:>10.3f}")
    click.echo(f"\n{'a drop of .03 is found':46}{'gate':>10}{'before':>10}")
    found = outcomes(World("drop", drop=0.03), histories, 99)
    for look in (1, 10, LOOKS):
        at = {rule: rows[:, look - 1].mean() for rule, rows in found.items()}
        click.echo(f"{f'at look {look}':46}{at['gate']:>10.3f}{at['before']:>10.3f}")
    for look in (10, LOOKS):
        by = {rule: rows[:, :look].any(axis=1).mean() for rule, rows in found.items()}
        name = f"by look {look}, where it is there from look 1 on"
        click.echo(f"{name:46}{by['gate']:>10.3f}{by['before']:>10.3f}")


if __name__ == "__main__":
    main()
