"""Random runs and labels that reach every corner where tools are known to part."""

from __future__ import annotations

import random
from typing import Any

LISTS = ("autorag", "llamaindex", "ragas")
"""SearchSession that read a list and can meet a document twice."""

EVERY = (*LISTS, "beir")
DOCUMENTS = [f"d{i:02d}" for i in range(20)]

Sample = dict[str, Any]


def flat(grades: dict[str, dict[str, int]]) -> dict[str, list[list[str]]]:
    """Every relevant document is a group of its own."""
    return {
        query: [[item] for item, grade in judged.items() if grade > 0]
        for query, judged in grades.items()
    }


def graded_of(groups: dict[str, list[list[str]]]) -> dict[str, dict[str, int]]:
    return {
        query: {item: 1 for group in listed for item in group if item.strip()}
        for query, listed in groups.items()
    }


def descending(items: list[str]) -> list[list[Any]]:
    """Eighths are the same number in 32 bits."""
    return [[item, (100 - rank) / 8] for rank, item in enumerate(items)]


def plain(chance: random.Random, n_listed: range, n_judged: range, grades: range) -> Sample:
    run, judged = {}, {}
    for number in range(6):
        query = f"q{number}"
        run[query] = descending(chance.sample(DOCUMENTS, chance.choice(n_listed)))
        labelled = chance.sample(DOCUMENTS, chance.choice(n_judged))
        judged[query] = {item: chance.choice(grades) for item in labelled} | {labelled[0]: 1}
    return {"run": run, "grades": judged, "groups": flat(judged)}


def tied(chance: random.Random) -> Sample:
    sample = plain(chance, range(6, 12), range(3, 8), range(4))
    for query, hits in sample["run"].items():
        scored = [[item, chance.choice([1.0, 1.5, 2.0])] for item, _ in hits]
        sample["run"][query] = scored
    return sample


def nearly_tied(chance: random.Random) -> Sample:
    """Scores that differ in 64 bits and not in 32."""
    sample = plain(chance, range(6, 12), range(3, 8), range(4))
    for query, hits in sample["run"].items():
        sample["run"][query] = [[item, 0.5 - rank * 1e-12] for rank, (item, _) in enumerate(hits)]
    return sample


def grouped(chance: random.Random) -> Sample:
    groups = {
        f"q{n}": [
            chance.sample(DOCUMENTS, chance.randint(1, 3)) for _ in range(chance.randint(1, 4))
        ]
        for n in range(8)
    }
    run = {query: descending(chance.sample(DOCUMENTS, chance.randint(1, 12))) for query in groups}
    return {"run": run, "grades": graded_of(groups), "groups": groups}


def repeated(chance: random.Random) -> Sample:
    sample = grouped(chance)
    for query in sample["run"]:
        items = chance.choices(DOCUMENTS[:8], k=chance.randint(2, 12))
        sample["run"][query] = descending(items)
    return sample


def with_holes(chance: random.Random) -> Sample:
    """q0 is missing from the run, q1 has no relevant document, q2 is an empty list."""
    sample = plain(chance, range(2, 8), range(2, 6), range(3))
    del sample["run"]["q0"]
    sample["grades"]["q1"] = {"d00": 0, "d01": 0}
    sample["run"]["q2"] = []
    return sample | {"groups": flat(sample["grades"])}


def with_stranger(chance: random.Random) -> Sample:
    sample = plain(chance, range(2, 8), range(2, 6), range(3))
    sample["run"]["stranger"] = descending(["d00", "d01", "nowhere"])
    return sample


def own_id(chance: random.Random) -> Sample:
    """A hit has the id of its query, and is relevant in half of them."""
    sample = plain(chance, range(2, 8), range(2, 6), range(3))
    for number, (query, hits) in enumerate(sample["run"].items()):
        hits.insert(0, [query, 50.0])
        if number % 2:
            sample["grades"][query][query] = 1
    return sample | {"groups": flat(sample["grades"])}


def blank() -> Sample:
    groups: dict[str, list[list[str]]] = {
        "q0": [[]],
        "q1": [[""]],
        "q2": [["a"], []],
        "q3": [["a", " "]],
        "q4": [["a"]],
        "q5": [],
        "q6": [["a", "a", "b"]],
        "q7": [["a"], ["a", "b"]],
    }
    run = {query: descending(["x", "a", "b"]) for query in groups}
    run["q4"] = []
    return {"run": run, "grades": graded_of(groups), "groups": groups}


def documented() -> Sample:
    """Three cases of few numbers: graded, more relevant documents than k, one result."""
    many, five = [f"r{i:02d}" for i in range(20)], [f"c{i}" for i in range(5)]
    grades = {"G": {"a": 3, "b": 1, "c": 2, "n": 0}, "H": dict.fromkeys(many, 1)}
    grades["C"] = dict.fromkeys(five, 1)
    run = {"G": descending(["b", "x", "a", "n", "c"]), "H": descending(many[:5])}
    run["C"] = descending(["c0"])
    return {"run": run, "grades": grades, "groups": flat(grades)}


def samples() -> dict[str, Sample]:
    """Name -> sample; each names the tools that can be given it."""
    chance = random.Random(20)
    found: dict[str, tuple[Sample, tuple[str, ...]]] = {
        "documented": (documented(), EVERY),
        "graded": (plain(chance, range(5, 12), range(3, 10), range(4)), EVERY),
        "short lists": (plain(chance, range(1, 3), range(4, 12), range(1, 4)), EVERY),
        "many relevant": (plain(chance, range(8, 15), range(12, 20), range(1, 2)), EVERY),
        "negative grades": (plain(chance, range(5, 12), range(3, 10), range(-2, 4)), EVERY),
        "ties": (tied(chance), ("beir",)),
        "ties in 32 bits": (nearly_tied(chance), ("beir",)),
        "groups": (grouped(chance), EVERY),
        "repeated": (repeated(chance), LISTS),
        "holes": (with_holes(chance), EVERY),
        "stranger": (with_stranger(chance), ("beir",)),
        "own id": (own_id(chance), ("beir",)),
        "blank": (blank(), ("autorag",)),
    }
    return {name: {**sample, "tools": list(tools)} for name, (sample, tools) in found.items()}
