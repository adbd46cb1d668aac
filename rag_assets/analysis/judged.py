"""What judges say, calibrated with labels of people, and what came of ``judge check``.

What a judge says is shown only beside what it is calibrated to: alone it is no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rag_assets.analysis.evaluation_pairs import pair_sentence
from rag_assets.analysis.result import EvaluationResult, Row, grouped
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY, counting_of
from rag_assets.judges.answer_labels import labelled_questions
from rag_assets.judges.base import OF_CLAIMS
from rag_assets.judges.calibration import (
    ALONE,
    JUDGED_CORRECT,
    N_UNITS,
    Sample,
    questions_with_golds,
    samples,
)
from rag_assets.sheets.sheet import MEAN, TEXT, Column, Sheet, interval_of

ASSETS = ("calibrated_means", "calibrated_rankings", "calibrated_claims")
"""What calibrates means: of answerers, of retrievers, and of answerers without right answers."""


def how(result: EvaluationResult) -> str:
    """Return how people give the labels that calibrate the judges of an evaluation."""
    kind = " --passages" if result.evaluation.entries_of("relevance_verdicts") else " --claims"
    kind = "" if result.evaluation.entries_of("answer_verdicts") else kind
    return f"`rag-assets judge sheet PATH{kind}` draws the questions that people should label"


def judged_rows(result: EvaluationResult, split: str | None = None) -> list[Row]:
    """Return a row for each calibrated mean: judge by judge, in the order of the experiment.

    Returns:
        ``by`` (the judge), and the columns of :data:`rag_assets.schemas.CALIBRATED_MEANS`,
        ``judge`` None where nothing is calibrated.
    """
    rows = [row for asset in ASSETS for row in stored_rows(result, asset)]
    return [row for row in rows if split in (None, row["split"])]


def stored_rows(result: EvaluationResult, asset: str) -> list[Row]:
    """Return the rows of an asset of judges, with ``by`` and without what nothing calibrates."""
    return [
        {"by": entry.partition["judge"], **calibrated_row(row)}
        for entry in result.evaluation.entries_of(asset)
        for row in result.table(entry.key).to_pylist()
    ]


def calibrated_row(row: Row) -> Row:
    """Return a stored row; where nothing calibrates it, those of ``ALONE`` have the judge's."""
    is_hidden = row["calibrated"] is None and row["metric"].partition("@")[0] not in ALONE
    judge = None if is_hidden else row["judge"]
    values = {name: value for name, value in row.items() if name != N_UNITS}
    return {**values, "judge": judge}


def judged_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return a sheet for each judge and metric; none where nobody labelled."""
    by_judge = grouped(judged_rows(result, result.split), "by")
    return [
        _sheet(f"{metric} by {_who(result, judge, metric)}, {rows[0]['n']} questions", rows)
        for judge in judge_names(result)
        for metric, rows in grouped(by_judge.get(judge, ()), "metric").items()
    ]


def _who(result: EvaluationResult, judge: str, metric: str) -> str:
    """Return the judge, and its model where what it says may stand alone."""
    if metric.partition("@")[0] not in ALONE:
        return judge
    options, llms = result.configured("judges")[judge], result.configured("llms")
    llm = llms.get(options.get("llm") or "") or result.configured("llm")
    return f"{judge} ({llm['model'] if options['type'] == 'llm' else options['type']})"


def headline_sheets(result: EvaluationResult) -> list[Sheet]:
    """Return those of the metrics that decide, and a line on each judge without labels.

    The report and programs have the other metrics.
    """
    decisive = (JUDGED_CORRECT, result.primary.column, *ALONE)
    sheets = [
        sheet
        for sheet in judged_sheets(result)
        if sheet.rows[0]["metric"].partition("@")[0] in decisive
    ]
    unlabelled = unlabelled_texts(result)
    return [*sheets, *([Sheet("", (), (), notes=unlabelled)] if unlabelled else [])]


def unlabelled_texts(result: EvaluationResult) -> list[str]:
    """Return a sentence on each judge beside which nobody labelled anything."""
    rows = judged_rows(result, result.split)
    labelled = {row["by"] for row in rows if row["n_labels"]}
    alone = {row["by"] for row in rows if row["judge"] is not None}
    return [
        f"judge {judge}: no labels of people, so its verdicts are "
        f"not {'calibrated' if judge in alone else 'used'}; {how(result)}"
        for judge in judge_names(result)
        if judge not in labelled
    ]


def judge_names(result: EvaluationResult) -> list[str]:
    """Return the judges of an evaluation, of answers and of passages, each once."""
    assets = ("relevance_verdicts", "claim_verdicts")
    entries = [entry for asset in assets for entry in result.evaluation.entries_of(asset)]
    return list(dict.fromkeys([*result.judges, *(entry.partition["judge"] for entry in entries)]))


def _sheet(title: str, rows: Sequence[Row]) -> Sheet:
    """Return the sheet of one metric by one judge."""
    noun = "answerer" if rows[0]["metric"] in (JUDGED_CORRECT, *OF_CLAIMS) else "retriever"
    columns = (
        Column("name", noun, TEXT),
        *calibrated_columns(rows, MEAN),
        Column("n_missing", "missing verdicts", "d", is_sparse=True),
    )
    return Sheet(title, columns, rows, notes=[*_notes(rows)])


def calibrated_columns(rows: Sequence[Row], form: str) -> Iterator[Column]:
    """Yield what a judge says, calibrated, beside the labels alone."""
    interval = interval_of(rows)
    yield Column("judge", "judge", form, help="mean of its verdicts alone; not a result")
    yield Column(
        "calibrated",
        "calibrated",
        form,
        help="the mean by labels from people",
        bounds=("low", "high"),
        interval=interval,
        is_required=True,
    )
    yield Column("n_labels", "labels", "d")
    bounds = ("human_low", "human_high")
    yield Column("human", "labels alone", form, bounds=bounds, interval=interval)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    named: dict[str, list[str]] = {}
    for row in rows:
        reason = row["reason"]
        if row["judge"] is not None and row["calibrated"] is None:
            reason = "not calibrated with labels: the model's raw output, which no gate uses"
        if reason is not None:
            named.setdefault(reason, []).append(row["name"])
    yield from (f"{', '.join(names)}: {reason}" for reason, names in named.items())
    if text := missing_text(rows):
        yield text
    if unsure := max(row["n_cannot_tell"] for row in rows):
        yield f"{unsure} that people marked 'cannot tell' are left out"
    methods = dict.fromkeys(row["method"] for row in rows if row["calibrated"] is not None)
    if methods:
        yield f"method: {', '.join(methods)}; {interval_of(rows)}s"


def missing_text(rows: Sequence[Row]) -> str | None:
    """Return how many verdicts of a metric are missing, by name where they differ; None: none."""
    numbers = {row["name"]: row["n_missing"] for row in rows}
    if not any(numbers.values()):
        return None
    if len(set(numbers.values())) == 1:
        counts = f"{rows[0]['n_missing']} questions"
    else:
        listed = ", ".join(f"{name} {number}" for name, number in numbers.items() if number)
        counts = f"questions ({listed})"
    return f"{counts} without a verdict, left out and not counted as 0"


def sample_of(result: EvaluationResult, split: str) -> Sample | None:
    """Return the questions of a split that can be judged; None: there is none."""
    questions = questions_with_golds(result.table(QUERY_FACTS_KEY))
    labelled = labelled_questions(result.answer_labels)
    every = samples(counting_of(result.table), questions, labelled)
    return next((sample for sample in every if sample.counted.split == split), None)


def difference_text(row: Row) -> str:
    """Return what a calibrated difference comes to, in one sentence that claims no more."""
    a, b = row["name_a"], row["name_b"]
    if row["calibrated"] is None:
        return f"{b} against {a}: {row['reason']}"
    if row["low"] is None:
        return f"no interval for {b} against {a}: {row['reason']}"
    if row["low"] == row["high"] == 0:
        return f"{a} and {b} give the same answers"
    bounds, labels = (row["low"], row["high"]), f"{row['n_labels']} labels"
    return pair_sentence((a, b), row["calibrated"], bounds, "is more often correct than", labels)


MAX_PAIRS = 12
"""Pairs in the section of the page."""


def judged(result: EvaluationResult) -> Row | None:
    """Return the section on judges of the page; None where there is nothing of judges."""
    judges, checks = judge_names(result), kept_checks(result)
    if not judges and not checks:
        return None
    differences = [
        row
        for row in stored_rows(result, "calibrated_differences")
        if row["split"] == result.split and row["calibrated"] is not None
    ]
    sheets = []
    for sheet in judged_sheets(result):
        of = sheet.rows[0]["by"], sheet.rows[0]["metric"]
        pairs = [row for row in differences if (row["by"], row["metric"]) == of]
        sheets.append((sheet, [difference_text(row) for row in pairs[:MAX_PAIRS]]))
    told = [(check["judge"], check["at"], check_sheets(check)) for check in checks]
    return {"sheets": sheets, "unlabelled": unlabelled_texts(result), "checks": told}


VERDICTS = {True: "pass", False: "FAIL", None: "not tried"}


def kept_checks(result: EvaluationResult) -> list[Row]:
    """Return what is kept of the judges of an evaluation; not of what they were with other models.

    A judge of which another model, prompt or file was tried has none.
    """
    from rag_assets.judges.check import stored_check  # loads what runs judges
    from rag_assets.judges.verdicts_stage import judge_fingerprint

    fingerprints: dict[str, set[str]] = {}
    for asset in ("relevance_verdicts", "answer_verdicts", "claim_verdicts"):
        for entry, manifest in result.manifests_of(asset):
            used = fingerprints.setdefault(entry.partition["judge"], set())
            used.add(judge_fingerprint(manifest))
    checks = ((stored_check(result.root, name), used) for name, used in fingerprints.items())
    return [
        check
        for check, used in checks
        if check is not None and used == {kind["fingerprint"] for kind in check["kinds"]}
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
    agreement, youden = kind["agreement"], kind["youden"]
    if agreement is None:
        yield "agreement: not tried, no labels of people"
        return
    table = agreement["table"]
    yield f"{sum(map(sum, table))} labelled: people's grades are rows, the judge's are columns"
    for grade, row in enumerate(table):
        yield f"  {grade}: {'  '.join(f'{n:>5}' for n in row)}"
    if agreement["n_missing"]:
        yield f"  {agreement['n_missing']} labelled have no verdict, which is not 0"
    for name in ("sensitivity", "specificity"):
        share = agreement[name]
        if share["value"] is not None:
            interval = f"[{share['low']:.2f}, {share['high']:.2f}]"
            yield f"{name} {share['value']:.2f} {interval} of {share['n']}"
    chance = [("kappa", agreement["kappa"]), ("AC1", agreement["ac1"])]
    if len(table) > 2:
        chance.insert(1, ("weighted kappa", agreement["weighted_kappa"]))
    yield ", ".join(f"{name} {'-' if x is None else format(x, '.2f')}" for name, x in chance)
    if youden is None:
        yield "agreement: not tried, people call all of them the same"
    else:
        side = f"{abs(youden):.2f} {'above' if youden > 0 else 'below'}"
        side = "no better than" if side == "0.00 below" else side
        yield f"agreement: {VERDICTS[youden > 0]}, {side} chance"


def outcome(check: Row) -> str:
    """Return what all comes to."""
    failed = [f"{name} ({kind['kind']})" for kind in check["kinds"] for name in kind["failed"]]
    failed += ["circularity"] if check["circles"] else []
    if check["passed"]:
        return f"judge {check['judge']}: pass"
    return f"judge {check['judge']}: FAIL: {', '.join(failed)}"
