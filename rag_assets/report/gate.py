"""The gate: pass, fail, or cannot tell?

Each distinct state that is compared with one anchor is a look, tested as
:mod:`rag_assets.statistics.paired_differences` says: all looks together raise a false alarm with a
chance of at most ``alpha``. A retriever

- **fails** when its mean dropped by more than is allowed, also without what was lost to documents
  that nobody has judged, and chance does not explain a drop (p, corrected for the retrievers of the
  look, is below alpha / 20); and, outside of any test, when it is *broken*: it returns nothing for
  five questions or more for which it did return something;
- **passes** when no question has another value than before, or when the interval of its change lies
  above the allowed drop;
- else nobody **can tell**, and it is said how many more questions would tell.

What was looked at before is not tested again: it gets the answer that it had. What answers
otherwise although nothing changed, as a language model may, is a new state each time. An evaluation
that is not complete always fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

from rag_assets.errors import UsageError, allowed_names
from rag_assets.evaluation.metric_names import Metric, refuse_lower_is_better
from rag_assets.pipeline.evaluation_names import EvaluationNames, Subject, state_of
from rag_assets.report.drop_causes import newcomer_lines
from rag_assets.report.evaluation_pairs import EvaluationPair, comparability, question_texts
from rag_assets.report.findings import incomplete_parts
from rag_assets.report.formats import Row
from rag_assets.report.gate_checks import (
    CANNOT_TELL,
    FAIL,
    PASS,
    Answer,
    Check,
    Rules,
    broken,
    check_of_row,
    checks_of,
    row_of_check,
)
from rag_assets.report.judged_changes import change_lines, judged_change_rows
from rag_assets.report.metric_choice import (
    check_names,
    is_answerer,
    is_judged,
    is_of_answers,
    is_sampled,
    noun,
)
from rag_assets.report.notebook import table_html, table_text
from rag_assets.report.result import EvaluationResult
from rag_assets.report.sampled import sampled_pair
from rag_assets.report.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.statistics.paired_differences import LOOKS, fewest_falls, look_level

BASELINE = "baseline"


@dataclass(frozen=True)
class Look:
    """Which look at the anchor this is.

    Attributes:
        number: 1 is the first.
        repeated: whether this state was looked at before, so that nothing was tested.
        level: p has to be below it.
    """

    number: int
    repeated: bool
    level: float


@dataclass(frozen=True, repr=False)
class Gate:
    """The result.

    Attributes:
        experiment: its name.
        evaluation: id of the evaluation that passes or fails.
        against: id of the one that it is compared with; the same for the baseline.
        metric: with its cut-off.
        split: the queries that count: ``all``, ``dev`` or ``test``.
        rules: what was allowed.
        look: which look at ``against`` this was; None: nothing changed, so there was nothing to
            test, or it is no earlier evaluation.
        incomplete: what of the evaluation is missing or failed; none: it is complete.
        checks: one a retriever.
        notes: what else a reader should know.
    """

    experiment: str
    evaluation: str
    against: str
    metric: str
    split: str
    rules: Rules
    look: Look | None
    incomplete: tuple[str, ...]
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """The worst answer of any retriever; an evaluation that is not complete fails."""
        answers = {check.answer for check in self.checks}
        if self.incomplete or FAIL in answers:
            return FAIL
        return CANNOT_TELL if CANNOT_TELL in answers else PASS

    @property
    def passed(self) -> bool:
        """Whether the answer is ``pass``."""
        return self.answer == PASS

    def __repr__(self) -> str:
        """Return what ``print`` shows: the checks, and why they come out so."""
        return table_text(gate_sheet(self))

    def _repr_html_(self) -> str:
        """Return what a notebook shows; all text from data is escaped."""
        return table_html(gate_sheet(self))

    def as_json(self) -> Row:
        """Return everything as a mapping."""
        return {"answer": self.answer, "passed": self.passed, **asdict(self)}


def gate(
    new: EvaluationResult,
    names: EvaluationNames,
    against: str,
    rules: Rules,
    *,
    metric: str | None = None,
    split: str | None = None,
    retrievers: Collection[str] = (),
    intersection: bool = False,
) -> Gate:
    """Judge an evaluation, and keep the look where one was needed.

    Args:
        new: the evaluation.
        names: finds the evaluation to compare with.
        against: ``baseline``, ``previous``, ``anchor``, or a part of an id.
        rules: what is allowed.
        metric: the primary one when absent; of answerers their headline.
        split: test where there is one, when absent.
        retrievers: only these, or only these answerers at their cut-offs, as ``plain@5``; all that
            both evaluations have when empty.
        intersection: compare also where queries or labels differ, on those that are the same.

    Raises:
        UsageError: the evaluations are not comparable, or a name is unknown.
        NotEvaluated: there is nothing to compare with, or the evaluation has no such metric.
        StoreError: the look cannot be kept.
    """
    chosen_metric = new.chosen_metric(metric, retrievers)
    refuse_lower_is_better(str(chosen_metric), "a gate fails where a value falls")
    check_names(chosen_metric, retrievers)
    new.check_cells(chosen_metric)
    answers = is_of_answers(chosen_metric)
    if answers and against == BASELINE:
        raise UsageError("answerers have no baseline; compare with an earlier evaluation")
    old = new if against == BASELINE else _older(names, new, against, chosen_metric)
    if is_sampled(chosen_metric):
        pair = sampled_pair(old, new, chosen_metric, split)
    else:
        queries = comparability(old, new, answers=answers).chosen(intersection=intersection)
        pair = EvaluationPair.of(old, new, queries, chosen_metric, split)
    chosen = _chosen(pair, retrievers, against)
    look, checks = _looked(pair, chosen, rules, None if against == BASELINE else names)
    if against != BASELINE and not answers:
        checks = [broken(pair, check) or check for check in checks]
    return Gate(
        experiment=new.evaluation.experiment,
        evaluation=new.evaluation.evaluation_id,
        against=old.evaluation.evaluation_id,
        metric=str(pair.metric),
        split=pair.split,
        rules=rules,
        look=look,
        incomplete=tuple(incomplete_parts(new)),
        checks=tuple(checks),
        notes=tuple(_notes(pair, retrievers, is_earlier=against != BASELINE)),
    )


def _older(
    names: EvaluationNames, new: EvaluationResult, against: str, metric: Metric
) -> EvaluationResult:
    evaluation = names.find(against)
    if not evaluation.complete:
        problem = f"evaluation {evaluation.evaluation_id} is not complete"
        raise UsageError(f"{problem}; a gate compares with complete ones only")
    old = EvaluationResult(new.root, evaluation)
    if is_of_answers(metric) or is_sampled(metric):
        return old
    if not old.has_metrics:
        problem = f"evaluation {evaluation.evaluation_id} had no labels, so it has no metrics"
        raise UsageError("; ".join(filter(None, (problem, evaluation.unread_labels))))
    return old


def _chosen(
    pair: EvaluationPair, retrievers: Collection[str], against: str
) -> list[tuple[str, str]]:
    """Return the retrievers to check, each with that with which it is compared."""
    baseline = pair.new.evaluation.baseline
    if against == BASELINE:
        if baseline not in pair.new_cells:
            raise UsageError(f"the baseline {baseline} has no cell of {pair.metric}")
        pairs = {name: baseline for name in pair.new_cells if name != baseline}
    else:
        pairs = {name: name for name in pair.new_cells if name in pair.old_cells}
    for name in retrievers:
        if name not in pairs:
            raise UsageError(f"nothing to compare for {allowed_names(name, pairs)}")
    chosen = [
        (name, other) for name, other in pairs.items() if not retrievers or name in retrievers
    ]
    if not chosen:
        raise UsageError(f"no {noun(pair.metric)} has a cell of {pair.metric} to compare")
    return chosen


def _looked(
    pair: EvaluationPair,
    chosen: Sequence[tuple[str, str]],
    rules: Rules,
    names: EvaluationNames | None,
) -> tuple[Look | None, list[Check]]:
    """Return which look it is, and a check for each retriever; a new look is kept."""
    if names is None:
        return None, checks_of(pair, chosen, rules)
    looks = names.looks(pair.old.evaluation.evaluation_id)
    subject = Subject(str(pair.metric), pair.split, chosen)
    state, level = _state(pair, chosen), look_level(rules.alpha)
    number = looks.number(subject, state)
    kept = looks.answer(subject, state, asdict(rules))
    if kept is not None:
        texts = question_texts(pair.new)
        return Look(number, True, level), [check_of_row(row, texts) for row in kept]
    checks = checks_of(pair, chosen, rules)
    tested = [check for check in checks if check.p_adjusted is not None]
    if not tested:
        return None, checks
    if number > LOOKS:
        # After the last look what did not change still passes.
        anchor = pair.old.evaluation.evaluation_id
        spent = f"{LOOKS} looks at {anchor} are used up"
        text = f"{spent}; set a new anchor (`rag-assets anchor PATH`)"
        late = [
            Check(one.retriever, one.against, CANNOT_TELL, text, one.drop, causes=one.causes)
            if one in tested
            else one
            for one in checks
        ]
        return Look(number, False, level), late
    looks.add(subject, state, asdict(rules), [row_of_check(check) for check in checks])
    return Look(number, False, level), checks


def _state(pair: EvaluationPair, chosen: Sequence[tuple[str, str]]) -> str:
    """Return the digest of the runs, labels and questions that are looked at."""
    judges = pair.new.judges if is_judged(pair.metric) else []
    values = frozenset([*(name for name, _ in chosen), *judges, str(pair.metric.cutoff)])
    measured = "sampled_labels" if is_sampled(pair.metric) else "metrics"
    of_answers = (*_OF_ANSWERS, *(["answer_verdicts"] if judges else []))
    assets = {
        entry.asset: values
        for entry in pair.new.evaluation.entries
        if (
            entry.asset in of_answers
            if is_of_answers(pair.metric)
            else entry.asset.endswith(("_runs", measured))
        )
    }
    return state_of(pair.new.evaluation, assets)


_OF_ANSWERS = ("answers", "answer_metrics")
"""What a look at a metric of answers sees of each answerer."""


def _notes(pair: EvaluationPair, retrievers: Collection[str], *, is_earlier: bool) -> Iterator[str]:
    caveat = None if pair.evidence is None else pair.evidence.caveat()
    if caveat is not None:
        yield caveat
    if not is_earlier:
        return
    old, new = pair.old_cells, pair.new_cells
    if not retrievers:
        yield from (f"{n} is new and has nothing to be compared with" for n in new if n not in old)
        yield from (f"{name} is gone" for name in old if name not in new)
    count = len(set(pair.queries))
    asset = "queries" if is_of_answers(pair.metric) or is_sampled(pair.metric) else "qrels"
    labelled = len(set(pair.new.table_of(asset)["query_id"].to_pylist()))
    if is_judged(pair.metric):
        yield from change_lines(judged_change_rows(pair, retrievers))
    if count < labelled:
        yield f"only the {count} of {labelled} labelled queries that are the same in both count"


NUMBERS = ("n", "old", "new", "change", "low", "high")
"""Of a drop, for programs and for people."""

_WORDS: dict[Answer, str] = {PASS: "passed", FAIL: "FAILED", CANNOT_TELL: "cannot tell"}

MAX_QUESTIONS = 3
"""Questions that lost most and are named."""


def gate_sheet(gate: Gate) -> Sheet:
    """Return the checks, and below them why they come out so."""
    # The baseline is of the same evaluation, and not older.
    old, new = ("baseline", "value") if _baseline(gate) else ("old", "new")
    columns = (
        Column("answer", "result", TEXT, is_whole=True),
        Column("retriever", noun_of(gate), TEXT),
        Column("old", old),
        Column("new", new),
        Column(
            "change",
            "change",
            SIGNED,
            bounds=("low", "high"),
            interval="interval",
            is_required=True,
        ),
        Column("p_adjusted", "p", P_VALUE),
    )
    return Sheet(summary(gate), columns, gate_rows(gate), notes=[*_lines(gate)])


def gate_rows(gate: Gate) -> list[Row]:
    """Return one mapping a retriever."""
    return [
        {
            "retriever": check.retriever,
            "against": check.against,
            "answer": check.answer,
            "reason": check.reason,
            **{name: getattr(check.drop, name, None) for name in NUMBERS},
            "p_adjusted": check.p_adjusted,
            "more_questions": check.more_questions,
        }
        for check in gate.checks
    ]


def _baseline(gate: Gate) -> str | None:
    """Return the retriever that the others are compared with; None: each with itself, earlier."""
    return next((one.against for one in gate.checks if one.against != one.retriever), None)


def noun_of(gate: Gate) -> str:
    """Return what is checked: ``retriever`` or ``answerer``."""
    return "answerer" if any(is_answerer(check.retriever) for check in gate.checks) else "retriever"


def summary(gate: Gate) -> str:
    """Return the result in one line."""
    split = "" if gate.split == "all" else f", split {gate.split}"
    other = _baseline(gate)
    against = f"baseline {other}" if other else gate.against
    return f"gate {_WORDS[gate.answer]}: {gate.experiment}, {gate.metric}{split} against {against}"


def _lines(gate: Gate) -> Iterator[str]:
    for text in gate.incomplete:
        yield f"incomplete: {text}"
    for answer, lead in ((FAIL, "failed"), (CANNOT_TELL, "cannot tell")):
        for check in gate.checks:
            if check.answer == answer:
                yield f"{lead}: {check.retriever}: {check.reason}"
                yield from cause_lines(check)
    yield look_line(gate)
    for text in gate.notes:
        yield f"note: {text}"


def cause_lines(check: Check) -> Iterator[str]:
    """Yield which questions a retriever lost most on, by what, and the pages that nobody judged."""
    causes = check.causes
    if causes is None:
        return
    worst = causes.lost[:MAX_QUESTIONS]
    named = "; ".join(f"{one.query_id} ({one.old:.4f} -> {one.new:.4f})" for one in worst)
    more = causes.n_lost - len(worst)
    yield f"  {check.retriever} lost most on {named}" + (f"; and {more} more" if more else "")
    won = causes.loss + check.drop.change if check.drop is not None else 0.0
    elsewhere = f", and {won:.4f} was won on other questions" if won >= 0.00005 else ""
    by = f"by {causes.rest}"
    if causes.newcomers:
        rest = f"{causes.loss - causes.unjudged:.4f} {by}"
        by = f"{causes.unjudged:.4f} to documents that nobody has judged, {rest}"
    yield f"  {causes.loss:.4f} of the mean was lost{elsewhere}: {by}"
    for line in newcomer_lines(causes.newcomers, causes.n_newcomers):
        yield f"  {line}"


def look_line(gate: Gate) -> str:
    """Return which look it was, and what p had to be."""
    look = gate.look
    if look is None:
        nothing = all(check.drop is not None and check.drop.p is None for check in gate.checks)
        level = look_level(gate.rules.alpha)
        return "nothing changed, nothing was tested" if nothing else f"p must be below {level:g}"
    line = f"look {look.number} of {LOOKS} at {gate.against}: p must be below {look.level:g}, "
    line += f"so at least {fewest_falls(gate.rules.alpha)} questions must fall"
    return f"{line}; looked at before, not tested again" if look.repeated else line
