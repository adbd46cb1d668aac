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
- else nobody **can tell**, and it is said which drop the questions can show.

What was looked at before is no new look: it gets the same answer again. What answers otherwise
although nothing changed, as a language model may, is a new state each time. An evaluation
that is not complete always fails.

Beside the drops, or without them, stand floors (:mod:`rag_assets.analysis.floors`): one that is not
reached fails the gate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import pyarrow as pa

from rag_assets.analysis.comparability import comparability
from rag_assets.analysis.comparisons import needed_text
from rag_assets.analysis.diff import changes_between
from rag_assets.analysis.drop_causes import Causes, CorpusChange, causes_of
from rag_assets.analysis.evaluation_pairs import Drop, EstimatedSource, EvaluationPair, MetricSource
from rag_assets.analysis.findings import failed_by_file, failed_text, incomplete_parts
from rag_assets.analysis.floors import FloorCheck, floor_checks, floors_sheet
from rag_assets.analysis.metric_sources import chosen_source
from rag_assets.analysis.result import EvaluationResult, Row
from rag_assets.analysis.sampled import SampledLabels, sampled_names
from rag_assets.errors import NotEvaluated, UsageError, allowed_names
from rag_assets.evaluation.metric_names import refuse_lower_is_better
from rag_assets.experiment.config import FloorConfig
from rag_assets.pipeline.evaluation_names import EvaluationNames, GateLooks, Subject, state_of
from rag_assets.plain_text import markdown
from rag_assets.sheets.formats import columns_of, four_places
from rag_assets.sheets.notebook import Tabular
from rag_assets.sheets.sheet import P_VALUE, SIGNED, TEXT, Column, Sheet
from rag_assets.statistics.paired_differences import LOOKS, fewest_falls, look_level
from rag_assets.statistics.units import SAME

Answer = Literal["pass", "fail", "cannot tell"]
PASS: Answer = "pass"
FAIL: Answer = "fail"
CANNOT_TELL: Answer = "cannot tell"

MIN_SILENT = 5
"""From so many questions on, returning nothing is no matter of chance."""

MAX_CHANGES = 4
"""Changes since the other evaluation that are named; `diff` has all."""


@dataclass(frozen=True)
class Rules:
    """What is allowed.

    Attributes:
        max_drop: by how much a mean may fall, in units of the metric.
        alpha: level of the one-sided tests of all looks at one anchor together.
    """

    max_drop: float = 0.01
    alpha: float = 0.05


@dataclass(frozen=True)
class Look:
    """Which look at the anchor this is.

    Attributes:
        number: 1 is the first.
        repeated: whether this state was looked at before.
        level: p has to be below it.
    """

    number: int
    repeated: bool
    level: float


@dataclass(frozen=True)
class Check:
    """One retriever.

    Attributes:
        retriever: its name; of an answerer with its cut-off, as ``plain@5``.
        answer: ``pass``, ``fail`` or ``cannot tell``.
        reason: why; None: the numbers say it.
        drop: what was measured; None: no query has a value in both, or it counts for nothing.
        p_adjusted: p, corrected for the retrievers of the look; None: not tested.
        causes: why it fell; None: it passes, or no question of retrieval lost anything.
    """

    retriever: str
    answer: Answer
    reason: str | None
    drop: Drop | None = None
    p_adjusted: float | None = None
    causes: Causes | None = None


@dataclass(frozen=True, repr=False)
class Gate(Tabular):
    """The result.

    Attributes:
        experiment: its name.
        evaluation: id of the evaluation that passes or fails.
        against: id of the one that it is compared with; empty: with none, floors alone count.
        metric: with its cut-off; empty likewise.
        split: the queries that count: ``all``, ``dev`` or ``test``.
        rules: what was allowed.
        look: which look at ``against`` this was; None: nothing changed, so there was nothing to
            test.
        incomplete: what of the evaluation is missing or failed; none: it is complete.
        checks: one a retriever.
        notes: what else a reader should know.
        subject: what is checked: ``retriever`` or ``answerer``.
        of_sample: which queries were drawn, where not all are asked.
        floors: one a floor that can be read and retriever, or answerer.
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
    subject: str = "retriever"
    of_sample: str = ""
    floors: tuple[FloorCheck, ...] = ()

    @property
    def answer(self) -> Answer:
        """The worst answer of any retriever or floor; an evaluation that is not complete fails."""
        answers = {check.answer for check in self.checks}
        if self.incomplete or FAIL in answers or any(floor.reason for floor in self.floors):
            return FAIL
        return CANNOT_TELL if CANNOT_TELL in answers else PASS

    @property
    def passed(self) -> bool:
        """Whether the answer is ``pass``."""
        return self.answer == PASS

    def to_arrow(self) -> pa.Table:
        """Return a row a retriever or answerer, and a row a floor where there is one."""
        rows = self.rows()
        return pa.Table.from_pylist([{n: row.get(n) for n in columns_of(rows)} for row in rows])

    def _sheets(self) -> list[Sheet]:
        return self.sheets()

    def as_json(self) -> Row:
        """Return everything as a mapping, without what this gate lacks: an anchor, floors."""
        left_out = {"subject", "floors"}
        content = {n: x for n, x in asdict(self).items() if n not in left_out and x != ""}
        floors = {"floors": [floor.row for floor in self.floors]} if self.floors else {}
        return {"answer": self.answer, "passed": self.passed, **content, **floors}

    def rows(self) -> list[Row]:
        """Return one mapping a retriever or answerer, and then one a floor."""
        return [*self._drop_rows(), *(floor.row for floor in self.floors)]

    def _drop_rows(self) -> list[Row]:
        return [
            {
                self.subject: check.retriever,
                "answer": check.answer,
                "reason": check.reason,
                **{name: getattr(check.drop, name, None) for name in NUMBERS},
                "p_adjusted": check.p_adjusted,
            }
            for check in self.checks
        ]

    def sheet(self) -> Sheet:
        """Return the first of :meth:`sheets`."""
        return self.sheets()[0]

    def sheets(self) -> list[Sheet]:
        """Return drops and floors, with the reasons below; the first title says the answer."""
        split = "" if self.split == "all" else f", split {self.split}"
        lead, on = f"gate {_WORDS[self.answer]}: {self.experiment}, ", f"{split}{self.of_sample}"
        if not self.against:
            lines = [f"incomplete: {text}" for text in self.incomplete]
            lines += [f"note: {text}" for text in self.notes]
            return [floors_sheet(self.floors, f"{lead}floors{on}", lines)]
        drops = self._drops(f"{lead}{self.metric}{on} against {self.against}")
        return [drops, *([floors_sheet(self.floors, "floors")] if self.floors else [])]

    def _drops(self, title: str) -> Sheet:
        bounds = ("low", "high")
        columns = (
            Column("answer", "result", TEXT, is_whole=True),
            Column(self.subject, self.subject, TEXT),
            Column("old", "old"),
            Column("new", "new"),
            Column(
                "change", "change", SIGNED, bounds=bounds, interval="interval", is_required=True
            ),
            Column("p_adjusted", "p", P_VALUE),
        )
        return Sheet(title, columns, self._drop_rows(), notes=[*_lines(self)])

    def markdown(self) -> str:
        """Return the same for the page of a CI run."""
        parts = []
        for sheet in self.sheets():
            lines = "".join(f"- {markdown(' '.join(line.split()))}\n" for line in sheet.notes)
            parts.append(f"### {sheet.title}\n\n{sheet.markdown()}\n{lines}")
        return "\n".join(parts)


def gate(
    new: EvaluationResult,
    names: EvaluationNames,
    against: str | None,
    rules: Rules,
    *,
    metric: str | None = None,
    retrievers: Collection[str] = (),
    intersection: bool = False,
    floors: Sequence[FloorConfig] = (),
) -> Gate:
    """Judge an evaluation by its split, and keep the look where one was needed.

    Arguments are as for :func:`rag_assets.gate`; ``names`` finds what is compared with.

    Raises:
        UsageError: the evaluations are not comparable, a name is unknown, there is nothing to judge
            by, or a floor cannot be read and nothing fails.
        NotEvaluated: there is nothing to compare with, or the evaluation has no such metric.
        StoreError: the look cannot be kept.
    """
    checked, unreadable = floor_checks(new, floors, retrievers)
    judged = Gate(
        experiment=new.evaluation.experiment,
        evaluation=new.evaluation.evaluation_id,
        against="",
        metric="",
        split="",
        rules=rules,
        look=None,
        incomplete=tuple(incomplete_parts(new)),
        checks=(),
        of_sample=new.of_sample,
        notes=(*unreadable, *_failures_by_file(new, retrievers)),
        floors=tuple(checked),
    )
    if against is None and not floors:
        raise UsageError("a gate needs an evaluation to compare with, or a floor")
    try:
        if against is None:
            judged = replace(judged, split=new.split)
        else:
            judged = _compared(judged, new, names, against, metric, retrievers, intersection)
        if judged.answer == FAIL or not unreadable:
            return judged
    except (UsageError, NotEvaluated):
        if not unreadable:
            raise
    raise UsageError("; ".join(unreadable))


def _failures_by_file(result: EvaluationResult, retrievers: Collection[str]) -> Iterator[str]:
    for name, failures in failed_by_file(result).items():
        if not retrievers or name in retrievers:
            yield f"{failed_text(name, failures)}; a run file says so, and no mean counts them"


def _compared(
    judged: Gate,
    new: EvaluationResult,
    names: EvaluationNames,
    against: str,
    metric: str | None,
    retrievers: Collection[str],
    intersection: bool,
) -> Gate:
    """Return a gate with the drops since an older evaluation."""
    source = chosen_source(new, metric, retrievers)
    refuse_lower_is_better(str(source.metric), "a gate fails where a value falls")
    source.check(new)
    old = _older(names, new, against, source)
    is_sampled = isinstance(source, SampledLabels)
    both = comparability(old, new, answers=source.is_of_answers, sampled=is_sampled)
    pair = EvaluationPair.between(old, new, source, both.chosen(intersection=intersection))
    look, checks = _looked(pair, _chosen(pair, retrievers), judged.rules, names)
    if not source.is_of_answers:
        checks = [_broken(pair, check) or check for check in checks]
    return replace(
        judged,
        against=old.evaluation.evaluation_id,
        metric=str(source.metric),
        split=pair.split,
        look=look,
        checks=tuple(checks),
        notes=(*judged.notes, *_notes(pair, retrievers, checks)),
        subject=source.subject,
    )


def _older(
    names: EvaluationNames, new: EvaluationResult, against: str, source: MetricSource
) -> EvaluationResult:
    evaluation = names.find(against)
    if not evaluation.complete:
        problem = f"evaluation {evaluation.evaluation_id} is not complete"
        raise UsageError(f"{problem}; a gate compares with complete ones only")
    old = EvaluationResult(new.root, evaluation)
    is_sampled = isinstance(source, SampledLabels)
    if not (sampled_names(old) if is_sampled else old.has_metrics or not source.needs_labels):
        problem = f"evaluation {evaluation.evaluation_id} had no labels for {source.metric}"
        raise UsageError(f"{problem}; `rag-assets anchor PATH` pins one that has")
    return old


def _chosen(pair: EvaluationPair, names: Collection[str]) -> list[str]:
    """Return the retrievers to check."""
    both = [name for name in pair.new_cells if name in pair.old_cells]
    for name in names:
        if name not in both:
            raise UsageError(f"nothing to compare for {allowed_names(name, both)}")
    if not (chosen := [name for name in both if not names or name in names]):
        raise UsageError(f"no {pair.source.subject} has a cell of {pair.metric} to compare")
    return chosen


def _looked(
    pair: EvaluationPair, chosen: Sequence[str], rules: Rules, names: EvaluationNames
) -> tuple[Look | None, list[Check]]:
    """Return which look it is, and a check for each retriever; a new look is kept."""
    corpus = CorpusChange(pair)
    # What nothing calibrates yet is not worse for that.
    missing = CANNOT_TELL if isinstance(pair.source, EstimatedSource) else FAIL
    drops = pair.source.drops(pair, chosen, rules.alpha)
    checks = [
        Check(name, missing, drop)
        if isinstance(drop, str)
        else _check(pair, name, drop, p, rules, corpus)
        for name, (drop, p) in zip(chosen, drops, strict=True)
    ]
    if not (tested := [check for check in checks if check.p_adjusted is not None]):
        return None, checks
    anchor, source = pair.old.evaluation.evaluation_id, pair.source
    subject = Subject(str(pair.metric), pair.split, [(name, name) for name in chosen])
    values = [*chosen, str(pair.metric.cutoff), *pair.new.judges]
    state = state_of(pair.new.evaluation, source.measured, values)
    looks = GateLooks(names.settings, names.root, anchor)
    number, is_new = looks.number(subject, state)
    look = Look(number, not is_new, look_level(rules.alpha))
    if number <= LOOKS:
        if is_new:
            looks.add(subject, state)
        return look, checks
    # After the last look what did not change still passes.
    text = f"{LOOKS} looks at {anchor} are used up; set a new anchor (`rag-assets anchor PATH`)"
    spent: Row = {"answer": CANNOT_TELL, "reason": text, "p_adjusted": None}
    return look, [replace(check, **spent) if check in tested else check for check in checks]


def _check(
    pair: EvaluationPair, name: str, drop: Drop, p: float | None, rules: Rules, corpus: CorpusChange
) -> Check:
    if drop.low is not None and drop.low >= -rules.max_drop - SAME:
        return Check(name, PASS, None, drop, p)
    causes = causes_of(pair, name, corpus) if pair.source.needs_labels else None
    unjudged, at_most = (causes.unjudged, causes.unjudged_at_most) if causes else (0.0, 0.0)
    allowed, level = f"{rules.max_drop:g} is allowed", look_level(rules.alpha)
    is_too_much, answer = drop.drop > rules.max_drop + SAME, CANNOT_TELL
    can_show, fewest = "", fewest_falls(rules.alpha)
    if drop.detectable is not None:
        helps = drop.drop > SAME and pair.caveat is None
        sizes = drop.n, drop.detectable, drop.drop
        more = needed_text(*sizes, "questions", fewest) if helps else ""
        can_show = f"; a drop of {drop.detectable:.4f} can be shown{more}"
        # No mean falls below 0.
        if drop.n < fewest or (drop.old is not None and drop.detectable > drop.old):
            can_show = f"; no drop can be shown with {drop.n} questions{more}"
    if drop.low is None:
        reason = f"no conclusion: {drop.reason or f'too few queries for an interval ({drop.n})'}"
    elif not is_too_much:
        reason = f"a drop of {-drop.low:.4f} cannot be ruled out; {allowed}{can_show}"
    elif p is None or p >= level:
        chance = f"may be chance (p = {four_places(p or 1.0)}, below {level:g} is needed)"
        reason = f"dropped by {drop.drop:.4f}, which {chance}; {allowed}{can_show}"
    else:
        reason = f"dropped by {drop.drop:.4f} (p = {four_places(p)})"
        if drop.drop - at_most > rules.max_drop + SAME:
            answer, reason = FAIL, f"{reason}; {allowed}"
        else:
            comes = "may come" if at_most - unjudged > SAME else "comes"
            reason += f", but {at_most:.4f} of it {comes} from documents that nobody has judged"
    return Check(name, answer, reason, drop, p, causes)


def _broken(pair: EvaluationPair, check: Check) -> Check | None:
    """Return a failing check of a retriever that returns nothing where it did; None: it is not.

    :data:`MIN_SILENT` questions or more must have had hits in the older evaluation and none now.
    """
    is_labelled, cutoff = pair.source.needs_labels, pair.metric.cutoff or 0
    ids = [row["query_id"] for row in pair.counting] if is_labelled else pair.queries
    answered = [
        set(ids) & set(result.table(keys[cutoff])["query_id"].to_pylist())
        for result in (pair.old, pair.new)
        if cutoff in (keys := result.run_keys(check.retriever))
    ]
    silent = len(answered[0] - answered[1]) if len(answered) == 2 else 0
    if silent < MIN_SILENT:
        return None
    reason = f"broken: it returns nothing for {silent} questions that had hits"
    return replace(check, answer=FAIL, reason=reason)


def _notes(pair: EvaluationPair, names: Collection[str], checks: Sequence[Check]) -> Iterator[str]:
    if pair.caveat is not None:
        yield pair.caveat
    if any(check.causes is not None for check in checks):
        reasons = [reason.text for reason in changes_between(pair.old, pair.new)]
        more = "; ..." if len(reasons) > MAX_CHANGES else ""
        yield f"changed since: {'; '.join(reasons[:MAX_CHANGES]) or 'nothing'}{more}"
    old, new = pair.old_cells, pair.new_cells
    if not names:
        yield from (
            f"{n} is new, so there is nothing to compare it with" for n in new if n not in old
        )
        yield from (f"{name} is gone" for name in old if name not in new)
    yield from pair.source.change_notes(pair)
    count = len(set(pair.queries))
    asset = "qrels" if pair.source.needs_labels else "queries"
    labelled = len(set(pair.new.table_of(asset)["query_id"].to_pylist()))
    if count < labelled:
        yield f"only the {count} of {labelled} labelled queries that both have are compared"


NUMBERS = ("n", "old", "new", "change", "low", "high")
"""Of a drop, for programs and for people."""

_WORDS: dict[Answer, str] = {PASS: "passed", FAIL: "FAILED", CANNOT_TELL: "cannot tell"}


def _lines(gate: Gate) -> Iterator[str]:
    yield from (f"incomplete: {text}" for text in gate.incomplete)
    for answer, lead in ((FAIL, "failed"), (CANNOT_TELL, "cannot tell")):
        for check in gate.checks:
            if check.answer == answer:
                yield f"{lead}: {check.retriever}: {check.reason}"
                if check.causes is not None and check.drop is not None:
                    yield from check.causes.lines(check.retriever, check.drop.change)
    look, alpha = gate.look, gate.rules.alpha
    if look is None:
        nothing = all(check.drop is not None and check.drop.p is None for check in gate.checks)
        level = f"p must be below {look_level(alpha):g}"
        yield "nothing changed, nothing was tested" if nothing else level
    else:
        line = f"look {look.number} of {LOOKS} at {gate.against}: p must be below {look.level:g}, "
        line += f"so at least {fewest_falls(alpha)} questions must get worse"
        yield f"{line}; this state was looked at before" if look.repeated else line
    yield from (f"note: {text}" for text in gate.notes)
