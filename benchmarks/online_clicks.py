"""Print how often intervals of online metrics cover, and how often equal systems get a winner.

    rag-assets evaluate ../shared/data/cranfield/twenty_one_systems.yaml --store STORE
    python benchmarks/online_clicks.py EXPERIMENT.yaml --store STORE [--draws 2000]

Simulated users search with questions of the experiment and click by a position-based model: a
result at rank r is looked at with the chance 1 / r, and then clicked with the chance .7 where it is
relevant, .1 where it is not, times what is the user's own: .4, .7 or 1. So what is true is known
exactly. Each draw is of two systems, new users and new searches:

- ``unpaired``: half of the users see one system, half the other;
- ``paired``: each search of a user is shown one of both;
- ``interleaving``: lists of :func:`rag_assets.evaluation.online_metrics.team_draft`.

A false winner has p < .05, and the system is compared with itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from rag_assets.analysis.result import EvaluationResult
from rag_assets.evaluation.online_metrics import (
    ONLINE_METRICS,
    coin_throws,
    differences,
    means,
    online_values,
    preferences,
    team_draft,
)
from rag_assets.pipeline.evaluation_names import open_evaluations
from rag_assets.schemas import column_values
from rag_assets.statistics.units import Floats, Resampling

DEPTH = 10
SEARCHES, N_PAIRS = 5, 40
EAGERNESS = np.array([0.4, 0.7, 1.0])
RELEVANT, OTHER = 0.7, 0.1

Row = dict[str, Any]


class Shown(NamedTuple):
    """A list, whose results are taken from two teams or from one system, and its click chances."""

    results: list[str]
    teams: list[int]
    chances: Floats


class World(NamedTuple):
    """Rankings of each system and question, and what is relevant."""

    rankings: dict[str, list[list[str]]]
    relevant: list[set[str]]

    def chances(self, question: int, results: Sequence[str]) -> Floats:
        """Return the chance of a click on each result, of a user whose eagerness is 1."""
        is_relevant = np.array([unit in self.relevant[question] for unit in results])
        return np.where(is_relevant, RELEVANT, OTHER) / np.arange(1, len(results) + 1)

    def truth(self, system: str) -> Floats:
        """Return the expected value of each online metric."""
        clicks = shown = 0.0
        others = []
        for question, results in enumerate(self.rankings[system]):
            p = np.outer(EAGERNESS, self.chances(question, results))
            clicks, shown = clicks + p.sum() / len(EAGERNESS), shown + len(results)
            none = np.cumprod(np.column_stack([np.ones(len(p)), 1 - p]), axis=1)
            first = (none[:, :-1] * p / np.arange(1, len(results) + 1)).sum(axis=1)
            others.append((first.mean(), none[:, -1].mean()))
        return np.array([clicks / shown, *np.mean(others, axis=0)])

    def shown(self, question: int, results: list[str], teams: list[int]) -> Shown:
        """Return a list with the chances of its clicks."""
        return Shown(results, teams, self.chances(question, results))

    def alone(self, system: str) -> list[list[Shown]]:
        """Return the list of each question."""
        return [[self.shown(n, list(r), [])] for n, r in enumerate(self.rankings[system])]

    def interleaved(self, a: str, b: str) -> list[list[Shown]]:
        """Return the interleaved lists of each question."""
        pairs = zip(self.rankings[a], self.rankings[b], strict=True)
        return [
            [self.shown(n, *team_draft(*pair, DEPTH, iter(c))) for c in coin_throws(20, DEPTH, n)]
            for n, pair in enumerate(pairs)
        ]


def preference(lists: Sequence[Sequence[Shown]]) -> float:
    """Return the expected preference, from the distribution of the clicks of both teams."""
    every = [one for of_question in lists for one in of_question if len(one.results) == DEPTH]
    assert len(every) == sum(map(len, lists))
    teams = np.array([one.teams for one in every])[:, None, :]
    p = np.array([one.chances for one in every])[:, None, :] * EAGERNESS[:, None]
    lead = np.zeros((*p.shape[:2], 2 * DEPTH + 1))
    lead[..., DEPTH] = 1.0
    for rank in range(DEPTH):
        moved = np.where(
            teams[..., rank, None] > 0, np.roll(lead, 1, axis=2), np.roll(lead, -1, axis=2)
        )
        lead = (1 - p[..., rank, None]) * lead + p[..., rank, None] * moved
    return float((lead[..., DEPTH + 1 :].sum(-1) - lead[..., :DEPTH].sum(-1)).mean() / 2)


def world_of(path: Path, store: Path | None) -> World:
    """Read the last evaluation of an experiment whose judged unit is the document."""
    _, names = open_evaluations(path, store)
    result = EvaluationResult.current(names.root)
    relevant: dict[str, set[str]] = {}
    for query, unit, grade in column_values(
        result.table_of("qrels"), "query_id", "document_id", "grade"
    ):
        relevant.setdefault(query, set()).update([unit] if grade > 0 else [])
    queries = sorted(relevant)
    rankings = {}
    for name in result.run_retrievers:
        of_query: dict[str, list[str]] = {query: [] for query in queries}
        run = result.table(result.run_keys(name)[DEPTH])
        for query, unit in column_values(run, "query_id", "unit_id"):
            of_query[query].append(unit)
        rankings[name] = [of_query[query] for query in queries]
    return World(rankings, [relevant[query] for query in queries])


def searches(
    lists: Sequence[Sequence[Sequence[Shown]]],
    sides: Sequence[Sequence[int]],
    random: np.random.Generator,
) -> Iterator[tuple[int, Row]]:
    """Yield a side and a search for every user and side; ``sides`` are those that a user sees."""
    n = max(map(len, sides))
    eager = EAGERNESS[random.integers(0, len(EAGERNESS), len(sides))]
    questions = random.integers(0, len(lists[0]), (len(sides), n))
    chosen = random.random((len(sides), n))
    luck = random.random((len(sides), n, DEPTH))
    for user, seen in enumerate(sides):
        for number, side in enumerate(seen):
            of_question = lists[side][questions[user, number]]
            one = of_question[int(chosen[user, number] * len(of_question))]
            looked = luck[user, number, : len(one.results)] < eager[user] * one.chances
            clicks = (np.flatnonzero(looked) + 1).tolist()
            row = {"user": f"{user:05}", "results": one.results, "teams": one.teams}
            yield side, {**row, "clicks": clicks}


def main() -> None:
    """Print a row a design, metric and number of users."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--users", type=int, nargs="*", default=[100])
    designs = ("mean", "unpaired", "paired", "interleaving")
    parser.add_argument("--designs", nargs="*", default=designs)
    options = parser.parse_args()
    world = world_of(options.experiment, options.store)
    names = list(world.rankings)
    click.echo(f"{len(names)} systems, {len(world.relevant)} questions, {options.draws} draws")
    click.echo(
        f"{'design':14}{'metric':18}{'users':>6}{'covers':>8}{'false':>8}{'found':>8}{'width':>8}"
    )
    truths = {name: world.truth(name) for name in names}
    plain = {name: world.alone(name) for name in names}
    for n_users in options.users:
        for design in options.designs:
            for metric, found in _draws(world, design, truths, plain, n_users, options.draws):
                figures = "".join(f"{value:8.4f}" for value in np.nanmean(found, axis=0))
                click.echo(f"{design:14}{metric:18}{n_users:6}{figures}")


def _draws(
    world: World,
    design: str,
    truths: Mapping[str, Floats],
    plain: Mapping[str, Sequence[Sequence[Shown]]],
    n_users: int,
    n_draws: int,
) -> Iterator[tuple[str, Floats]]:
    """Yield a metric, and of each draw: covers, false winner (equal), true winner, width."""
    random = np.random.Generator(np.random.PCG64(n_users))
    names, found = list(truths), dict[str, list[tuple[float, ...]]]()
    pairs = [tuple(random.choice(names, 2, replace=False)) for _ in range(N_PAIRS)]
    drafts: dict[tuple[str, str], tuple[Any, float]] = {}
    for number in range(n_draws):
        for is_null in (False, True):
            a, b = pairs[number % len(pairs)]
            b = a if is_null else b
            if design == "interleaving":
                if (a, b) not in drafts:
                    lists = world.interleaved(a, b)
                    drafts[a, b] = lists, preference(lists)
                lists, truth = drafts[a, b]
                drawn = searches([lists], [[0] * SEARCHES] * n_users, random)
                rows = preferences(
                    [{**row, "names": ["0", "1"]} for _, row in drawn], Resampling(resamples=1000)
                )
                rows = [{**rows[0], "truth": truth}]
            else:
                sides = [
                    random.integers(0, 2, SEARCHES).tolist()
                    if design == "paired"
                    else [user % 2 if design == "unpaired" else 0] * SEARCHES
                    for user in range(n_users)
                ]
                of_side: dict[str, list[Row]] = {"0": [], "1": []}
                for side, row in searches([plain[a], plain[b]], sides, random):
                    of_side[str(side)].append(row)
                if design == "mean":
                    values, weights = online_values(of_side["0"])
                    users = [row["user"] for row in of_side["0"]]
                    one = means(ONLINE_METRICS, values, weights, users)
                    rows = [
                        {"metric": m, "p": 1.0, "truth": t, "difference": one[m]}
                        | {f"difference_{end}": one[f"{m}_{end}"] for end in ("low", "high")}
                        for m, t in zip(ONLINE_METRICS, truths[a], strict=True)
                    ]
                else:
                    rows = differences(of_side)
                    for row, t in zip(rows, truths[b] - truths[a], strict=True):
                        row["truth"] = t
            for row in rows:
                low, high = row["difference_low"], row["difference_high"]
                covers = low - 1e-12 <= row["truth"] <= high + 1e-12
                wins = row["p"] < 0.05 and row["difference"] * row["truth"] > 0
                equal = float(row["p"] < 0.05) if is_null else np.nan
                true = np.nan if is_null else float(wins)
                value = (float(covers), equal, true, high - low)
                found.setdefault(row["metric"], []).append(value)
    for metric, of_draws in found.items():
        yield metric, np.array(of_draws)


if __name__ == "__main__":
    main()
