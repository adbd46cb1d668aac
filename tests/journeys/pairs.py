"""Covering arrays: few journeys in which every two (or three) values of different kinds meet.

``python -m tests.journeys.pairs`` prints the stored array; with ``--write`` it is made again.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

from tests.journeys.folder import VALUES, Row

FILE = Path(__file__).with_name("pairs.csv")

FOLLOWED_BY = 3
"""So many things are done at most after the evaluations of one journey: these cost far more."""

Values = frozenset[tuple[int, str]]
"""Some values of different kinds, each with the number of its kind."""


def stored_rows() -> list[Row]:
    """Return the journeys of the stored array, which covers all pairs."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream)]


def is_possible(values: Values) -> bool:
    """Return whether a journey can have these values: without answers, none is measured."""
    return not {(2, "none"), (3, "answers")} <= values


def combined(strength: int) -> set[Values]:
    """Return all that must meet: every choice of values of so many kinds, if it is possible."""
    kinds = list(enumerate(VALUES.values()))
    choices = (
        frozenset(zip(numbers, values, strict=True))
        for chosen in combinations(kinds, strength)
        for numbers in [[number for number, _ in chosen]]
        for values in product(*(values for _, values in chosen))
    )
    return {one for one in choices if is_possible(one)}


def covered(row: Row, strength: int) -> Iterator[Values]:
    """Yield what meets in a journey: each thing that is done at its end meets all before."""
    for then in row.then.split("+"):
        yield from map(frozenset, combinations(enumerate(row._replace(then=then)), strength))


def covering_rows(strength: int, seed: int = 0) -> list[Row]:
    """Return journeys in which everything meets: each is the best of some that were drawn."""
    drawn = random.Random(seed)
    open_choices = combined(strength)
    in_order = sorted(open_choices, key=sorted)
    drawn.shuffle(in_order)
    rows = []
    while open_choices:
        first = next(one for one in in_order if one in open_choices)
        in_order = in_order[in_order.index(first) :]
        candidates = [_completed(first, open_choices, strength, drawn) for _ in range(8)]
        best = max(
            candidates, key=lambda row: len(open_choices.intersection(covered(row, strength)))
        )
        open_choices.difference_update(covered(best, strength))
        rows.append(_followed(best, open_choices, strength))
    return rows


def _followed(row: Row, open_choices: set[Values], strength: int) -> Row:
    """Return a journey at whose end more is done; what meets by that is open no more."""
    then = [row.then]
    while len(then) < FOLLOWED_BY:
        met = {
            one: open_choices.intersection(covered(row._replace(then=one), strength))
            for one in VALUES["then"]
        }
        best = max(met, key=lambda one: len(met[one]))
        if not met[best]:
            break
        open_choices -= met[best]
        then.append(best)
    return row._replace(then="+".join(sorted(then, key=VALUES["then"].index)))


def _completed(
    first: Values, open_choices: set[Values], strength: int, drawn: random.Random
) -> Row:
    """Return a journey with some values, and further ones that meet what did not meet yet."""
    row = dict(first)
    kinds = [number for number in range(len(VALUES)) if number not in row]
    drawn.shuffle(kinds)
    for number in kinds:
        others = [frozenset(some) for some in combinations(row.items(), strength - 1)]
        values = list([*VALUES.values()][number])
        drawn.shuffle(values)
        possible = [v for v in values if is_possible(frozenset({*row.items(), (number, v)}))]
        row[number] = max(
            possible, key=lambda v: sum(some | {(number, v)} in open_choices for some in others)
        )
    return Row(*(row[number] for number in sorted(row)))


def main() -> None:
    """Print the array, or write it."""
    if "--write" in sys.argv:
        with FILE.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(Row._fields)
            writer.writerows(covering_rows(2))
    rows = [Row._fields, *stored_rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{number or '':>3} {'  '.join(cells).rstrip()}\n")
    sys.stdout.write(f"{len(rows) - 1} journeys cover {len(combined(2))} pairs\n")


if __name__ == "__main__":
    main()
