"""Every measure a second time, rank by rank in plain Python, from its formula.

The formulas and their sources stand in the head of :mod:`rag_assets.evaluation.metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from hypothesis import strategies as st

from tests.made_tables import N_UNITS

Structure = dict[tuple[str, str | None], int]
"""(evidence, unit) -> grade."""

UNITS = [f"c{i}" for i in range(8)]
EVIDENCES = [f"e{i}" for i in range(5)]

STRUCTURES = st.dictionaries(
    st.tuples(st.sampled_from(EVIDENCES), st.sampled_from([*UNITS, None])), st.integers(-1, 3)
)
RANKINGS = st.permutations([*UNITS, "x", "y"]).flatmap(
    lambda items: st.integers(0, len(items)).map(lambda n: list(items[:n]))
)


class Walk:
    """One walk down a ranking at relevance level ``rel``: what each rank newly brings."""

    def __init__(self, ranking: Sequence[str], structure: Structure, k: int, rel: int) -> None:
        """Walk the first ``k`` ranks."""
        best: dict[str, int] = {}
        units: dict[str, int] = {}
        for (evidence, unit), grade in structure.items():
            best[evidence] = max(grade, best.get(evidence, grade))
            if unit is not None:
                units[unit] = max(grade, units.get(unit, grade))
        self.k, self.n = k, len(ranking[:k])
        self.grades = sorted((grade for grade in best.values() if grade >= rel), reverse=True)
        reached = {e for (e, unit), grade in structure.items() if unit is not None and grade >= 0}
        unseen = {e: best[e] for e, unit in structure if unit is None and e not in reached}
        self.n_bad = sum(0 <= grade < rel for grade in (*units.values(), *unseen.values()))
        self.relevant = [units.get(unit, -1) >= rel for unit in ranking[:k]]
        self.bad = [0 <= units.get(unit, -1) < rel for unit in ranking[:k]]
        self.n_judged = sum(units.get(unit, -1) >= 0 for unit in ranking[:k])
        self.new: list[list[int]] = []
        done: set[str] = set()
        for unit in ranking[:k]:
            here = {e: g for (e, u), g in structure.items() if u == unit and g >= rel}
            self.new.append([grade for evidence, grade in here.items() if evidence not in done])
            done |= here.keys()


def naive(
    ranking: Sequence[str], structure: Structure, k: int, *, rel: int = 1, p: float = 0.8
) -> dict[str, float | None]:
    """Measure -> value at ``k``; null where no evidence has a positive grade, 0 / 0 for judged."""
    graded = Walk(ranking, structure, k, 1)
    walk = Walk(ranking, structure, k, rel)
    names = [*_binary(walk, p), *_graded(graded), "judged"]
    if not graded.grades:
        return dict.fromkeys(names)
    values: dict[str, float | None] = {**_graded(graded)}
    values |= _binary(walk, p) if walk.grades else dict.fromkeys(_binary(walk, p), 0.0)
    values["fp"] = walk.n - sum(walk.relevant)
    missed = len(walk.grades) - sum(len(new) for new in walk.new)
    values["tn"] = max(N_UNITS - walk.n - missed, 0)
    values["judged"] = walk.n_judged / walk.n if walk.n else None
    return values


def _graded(walk: Walk) -> dict[str, float]:
    gains = [max(new, default=0) for new in walk.new]
    go_on, err = 1.0, 0.0
    for rank, grade in enumerate(gains, 1):
        satisfied = (2**grade - 1) / 2**4
        err += go_on * satisfied / rank
        go_on *= 1 - satisfied
    exponential = [2**grade - 1 for grade in gains]
    return {
        "ndcg": _dcg(gains) / (_dcg(walk.grades[: walk.k]) or 1),
        "ndcg_exp": _dcg(exponential) / (_dcg([2**g - 1 for g in walk.grades[: walk.k]]) or 1),
        "dcg": _dcg(gains),
        "dcg_exp": _dcg(exponential),
        "cg": sum(gains),
        "idcg": _dcg(walk.grades[: walk.k]),
        "err": err,
        **_of_trec_eval(walk, gains),
    }


def _of_trec_eval(walk: Walk, gains: Sequence[int]) -> dict[str, float]:
    r, ranks = len(walk.grades) or 1, range(1, walk.n + 1)
    precisions = [sum(walk.relevant[:rank]) / rank for rank in ranks]
    satisfied = [sum(len(new) for new in walk.new[:rank]) for rank in ranks]
    levels = []
    for tenths in range(11):
        needed = max(1, int(tenths / 10 * r + 0.9))
        reached = [p for p, n in zip(precisions, satisfied, strict=True) if n >= needed]
        levels.append(max(reached, default=0.0))

    def ndcg(rank: int) -> float:
        return _dcg(gains[:rank]) / (_dcg(walk.grades[:rank]) or 1)

    at_each = [ndcg(rank) for rank in ranks for _ in walk.new[rank - 1]]
    at_each += [ndcg(max(walk.n, r))] * (r - len(at_each))
    last_ranks = [sum(grade >= least for grade in walk.grades) for least in {*walk.grades}]
    if walk.n > r + 1:
        last_ranks.append(walk.n)
    return {
        "iprec": levels[0],
        "eleven_pt_avg": sum(levels) / 11,
        "ndcg_rel": sum(at_each) / r,
        "rndcg": sum(map(ndcg, last_ranks)) / (len(last_ranks) or 1),
    }


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _binary(walk: Walk, p: float) -> dict[str, float]:
    r, k = len(walk.grades) or 1, walk.k
    ranks = [rank for rank, relevant in enumerate(walk.relevant, 1) if relevant]
    found = sum(len(new) for new in walk.new)
    precision, recall = len(ranks) / k, found / r
    average, preference = 0.0, 0.0
    for rank, new in enumerate(walk.new, 1):
        above = sum(walk.bad[:rank])
        bound = min(walk.n_bad, r) or 1
        average += len(new) * sum(walk.relevant[:rank]) / rank / r
        preference += len(new) * (1 - min(above, r) / bound) / r
    return {
        "hit_rate": float(bool(ranks)),
        "mrr": 1 / ranks[0] if ranks else 0.0,
        "recall": recall,
        "recall_cap": min(found, r, k) / min(r, k),
        "precision": precision,
        "set_p": len(ranks) / (walk.n or 1),
        "set_map": len(ranks) / (walk.n or 1) * recall,
        "f1": 2 * precision * recall / (precision + recall) if ranks else 0.0,
        "f_beta": 5 * precision * recall / (4 * precision + recall) if ranks else 0.0,
        "tp": len(ranks),
        "fp": walk.n - len(ranks),
        "fn": len(walk.grades) - found,
        "tn": 0.0,
        "map": average,
        "r_precision": sum(rank <= r for rank in ranks) / r,
        "bpref": preference,
        "rbp": (1 - p) * sum(p ** (rank - 1) for rank in ranks),
    }
