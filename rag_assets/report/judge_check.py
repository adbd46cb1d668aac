"""What came of ``judge check``, as it is kept: sheets, and lines beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rag_assets.judges.check import stored_check
from rag_assets.judges.verdicts_stage import judge_fingerprint
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sheet import TEXT, Column, Sheet

Row = Mapping[str, Any]

VERDICTS = {True: "pass", False: "FAIL", None: "not tried"}


def kept_checks(result: EvaluationResult) -> list[Row]:
    """Return what is kept of the judges of an evaluation; not of what they were with other models.

    A judge of which another model, prompt or file was tried has none.
    """
    fingerprints: dict[str, set[str]] = {}
    for asset in ("relevance_verdicts", "answer_verdicts"):
        for entry, manifest in result.manifests_of(asset):
            used = fingerprints.setdefault(entry.partition["judge"], set())
            used.add(judge_fingerprint(manifest))
    checks = ((stored_check(result.root, name), own) for name, own in fingerprints.items())
    return [
        check
        for check, own in checks
        if check is not None and own == {kind["fingerprint"] for kind in check["kinds"]}
    ]


def check_sheets(check: Row) -> list[Sheet]:
    """Return the trials of each kind, and what the judge comes to in the last line."""
    sheets = [
        replace(trials_sheet(check["judge"], kind), notes=[score_text(kind), *people_lines(kind)])
        for kind in check["kinds"]
    ]
    circles = [f"FAIL {text}" for text in check["circles"]]
    return [*sheets, Sheet("", (), (), notes=[*circles, outcome(check)])]


def trials_sheet(judge: str, kind: Row) -> Sheet:
    """Return how often a change of a text was noticed."""
    rows = [
        {**row, "verdict": VERDICTS[row["passed"]], "share": row["noticed"] / row["tried"]}
        if row["tried"]
        else {"name": row["name"], "verdict": VERDICTS[row["passed"]], "reason": row["reason"]}
        for row in kind["trials"]
    ]
    columns = (
        Column("name", "trial", TEXT),
        Column("verdict", "verdict", TEXT, is_required=True),
        Column("noticed", "noticed", "d"),
        Column("tried", "tried", "d"),
        Column("share", "share", ".2f", bounds=("low", "high"), interval="95 %"),
        Column("reason", "reason", TEXT, missing=""),
    )
    return Sheet(f"{judge}: {kind['kind']}", columns, rows, name="judged")


def score_text(kind: Row) -> str:
    """Return the mutation score in a sentence."""
    if not kind["tried"]:
        return "mutation score: none, no change could be tried"
    share = kind["noticed"] / kind["tried"]
    return f"mutation score {share:.2f}: {kind['noticed']} of {kind['tried']} changes noticed"


def people_lines(kind: Row) -> Iterator[str]:
    """Yield what a kind comes to beside labels of people."""
    agreement, order = kind["agreement"], kind["order"]
    if agreement is None:
        yield "agreement: not tried, no labels of people"
    else:
        yield from _agreement_lines(agreement, kind["youden"])
    if order is not None and order["tau"] is not None:
        yield f"order of systems: tau {_with_interval(order['tau'], order['low'], order['high'])}"
        if order["tau_top"] is not None:
            top = _with_interval(order["tau_top"], order["low_top"], order["high_top"])
            yield f"order of the best {len(order['top'])}: tau {top}"
        yield f"the same best one in {order['same_winner']:.0%} of the resamples"


def _agreement_lines(found: Row, youden: float | None) -> Iterator[str]:
    table = found["table"]
    yield f"{sum(map(sum, table))} labelled: people's grades are rows, the judge's are columns"
    for grade, row in enumerate(table):
        yield f"  {grade}: {'  '.join(f'{n:>5}' for n in row)}"
    if found["n_missing"]:
        yield f"  {found['n_missing']} labelled have no verdict, which is not 0"
    for name in ("sensitivity", "specificity"):
        share = found[name]
        if share["value"] is not None:
            shown = _with_interval(share["value"], share["low"], share["high"])
            yield f"{name} {shown} of {share['n']}"
    chance = [("kappa", found["kappa"]), ("AC1", found["ac1"])]
    if len(table) > 2:
        chance.insert(1, ("weighted kappa", found["weighted_kappa"]))
    yield ", ".join(f"{name} {'-' if x is None else format(x, '.2f')}" for name, x in chance)
    if youden is None:
        yield "agreement: not tried, people call all of them the same"
    else:
        side = "above" if youden > 0 else "below"
        yield f"agreement: {VERDICTS[youden > 0]}, {abs(youden):.2f} {side} chance"


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def outcome(check: Row) -> str:
    """Return what all comes to."""
    failed = [f"{name} ({one['kind']})" for one in check["kinds"] for name in one["failed"]]
    failed += ["circularity"] if check["circles"] else []
    if check["passed"]:
        return f"judge {check['judge']}: pass"
    return f"judge {check['judge']}: FAIL: {', '.join(failed)}"
