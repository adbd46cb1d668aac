"""``relevance_verdicts``, ``answer_verdicts`` and ``claim_verdicts``: what each judge says.

A verdict belongs to a question and a text, never to a run or an answerer: what another chunking,
retriever or generator shares is not asked again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import pyarrow.compute as pc

from rag_assets.answers.contexts_stage import (
    answer_contexts_key,
    contexts_with_texts,
    passage_lists_key,
    passages_key,
)
from rag_assets.answers.stage import answers_key
from rag_assets.chunking.sentences import sentence_spans
from rag_assets.code_versions.closure import Root
from rag_assets.code_versions.versions import root_of
from rag_assets.engine.outgoing import (
    NO_WORK,
    ExpectedWork,
    asked_facts,
    llm_line,
    llm_work,
    needed,
)
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.errors import NotEvaluated
from rag_assets.evaluation.contexts_stage import document_texts
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.evaluation.units import text_of
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.llm import LlmConfig
from rag_assets.judges.base import (
    GROUNDEDNESS,
    OF_CLAIMS,
    RELEVANCE,
    UNPARSED,
    VERDICTS,
    ClaimItem,
    CorrectnessItem,
    Item,
    Judge,
    Kind,
    RelevanceItem,
    Verdict,
)
from rag_assets.judges.registry import LlmJudge
from rag_assets.llm.completions import ModelSession
from rag_assets.retrieval.runs_stage import depth_at_most, has_one_ranking
from rag_assets.schemas import (
    ANSWER_VERDICTS,
    CLAIM_VERDICTS,
    RELEVANCE_VERDICTS,
    TableSchema,
    column_values,
)
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey, Manifest
from rag_assets.store.canonical import fingerprint

JUDGE, LLM = "judge", "llm"
"""Keys of a recipe's configuration: what judges."""


class _VerdictsStage(Stage):
    """One partition a judge."""

    grade: ClassVar[str]
    schema: ClassVar[TableSchema]
    n_passages: ClassVar[int | None] = 0  # of a request; None: it has the context of an answer
    dimensions: ClassVar[tuple[str, ...]] = ("judge",)
    group = "judges"

    @property
    def judged(self) -> Sequence[Kind]:
        """The kinds of verdicts that it has."""
        return VERDICTS[self.name]

    def named_code(self, experiment: Experiment, key: ArtifactKey) -> list[Root]:
        return [root_of(type(experiment.judges[key["judge"]]))]

    def models(self, experiment: Experiment, key: ArtifactKey) -> Sequence[str | None]:
        judge = experiment.judges[key["judge"]]
        return [judge.llm] if isinstance(judge, LlmJudge) else []

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        judge = context.experiment.judges[key["judge"]]
        kinds = [kind for kind in self.judged if kind in (judge.judges or ())]
        described = {kind: dict(judge.described(kind)) for kind in kinds}
        judge_and_model = asked_model(context.experiment, key)
        model = {LLM: dict(judge_and_model[1].identity())} if judge_and_model is not None else {}
        return {JUDGE: described if len(self.judged) > 1 else described[kinds[0]], **model}

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        judge = context.experiment.judges[key["judge"]]
        files = {} if isinstance(judge, LlmJudge) else judge.files()  # prompts are in the config
        return {f"file.{option}": context.file_digest(file) for option, file in files.items()}

    def compute_one(self, context: StageContext, key: ArtifactKey) -> TableProduct:
        judged = judged_items(context, key)
        verdicts, facts = _judged(context, key, judged)
        of_item = dict(zip(judged, verdicts, strict=True))
        rows: list[dict[str, object]] = []
        for item in _items(context, key):
            verdict = of_item.get(item, Verdict(0))  # blank: wrong, whoever judges
            place = dict(zip(self.schema.key, item.place, strict=True))
            if isinstance(item, ClaimItem):
                place["text"] = item.claim
            reply = {"problem": verdict.problem, "reply": verdict.reply}
            rows.append({**place, self.grade: verdict.grade, **reply})
        return TableProduct(self.schema.from_rows(rows), facts)

    def expected_work(self, context: StageContext, key: ArtifactKey) -> ExpectedWork:
        experiment, judge_and_model = context.experiment, asked_model(context.experiment, key)
        if judge_and_model is None:
            return NO_WORK
        (judge, llm), queries = judge_and_model, context.current(QUERIES_KEY)
        line = llm_line(experiment, judge.llm)
        if line is None or queries is None:
            return llm_work([line] if line is not None else [])
        n_queries = queries.manifest.rows
        if any(context.current(item.key) is None for item in self.inputs(experiment, key)):
            # A reply without a score is asked for once more.
            calls = 2 * n_queries * self._most_items(context, judge)
            passages = None if self.n_passages is None else self.n_passages * calls
            line = replace(line, questions=n_queries, requests=calls, passages=passages)
            return llm_work([line])
        stored = partial(context.replies.get, llm.identity())
        items = judged_items(context, key)
        needs = needed(context, judge.llm, judge.open_requests(items, stored))
        n_asked = min(needs.calls, n_queries)
        contexts = [len(item.contexts) for item in items if isinstance(item, ClaimItem)]
        passages = max(contexts, default=self.n_passages or 0) * needs.calls
        return llm_work([line.needing(needs, questions=n_asked, passages=passages)])

    @abstractmethod
    def _most_items(self, context: StageContext, judge: Judge) -> int:
        """Return how many texts of a question are judged at most."""


class RelevanceVerdicts(_VerdictsStage):
    """How relevant a judge finds each text that a retriever handed over.

    The cells that hold them are read by way of ``passage_lists``, which an edge can name.
    """

    name = "relevance_verdicts"
    made_for = "relevance_judges"
    grade, n_passages = "grade", 1
    schema = RELEVANCE_VERDICTS
    row = "One text that a retriever passes on for one query, and how relevant it is to this judge."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        names = enumerate(experiment.retrievers)
        read = [Input(f"passages_{number}", passage_lists_key(name)) for number, name in names]
        return [Input("questions", QUERIES_KEY, "text"), *read]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        depth = context.experiment.judges[key["judge"]].depth
        return {**super().config(context, key), "depth": depth}

    def _most_items(self, context: StageContext, judge: Judge) -> int:
        most = 0
        for name in context.experiment.retrievers:
            depths = [min(judge.depth, k) for k in context.experiment.judged_cutoffs]
            is_one = has_one_ranking(context.experiment, name)
            most += depth_at_most(context, name, max(depths) if is_one else sum(depths))
        return most


class AnswerVerdicts(_VerdictsStage):
    """The answers that a judge considers right or wrong."""

    name = "answer_verdicts"
    made_for = "correctness_judges"
    grade = "correct"
    schema = ANSWER_VERDICTS
    row = "One answer to one question, and whether this judge considers it right."

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        cells = enumerate(experiment.answer_cells)
        read = [Input(f"answers_{number}", answers_key(name)) for number, name in cells]
        golds = Input("golds", QUERY_FACTS_KEY, "answers")
        return [Input("questions", QUERIES_KEY, "text"), golds, *read]

    def _most_items(self, context: StageContext, judge: Judge) -> int:
        return len(context.experiment.answer_cells)


class ClaimVerdicts(_VerdictsStage):
    """Which claims of answers a judge finds in their contexts, and to the question."""

    name = "claim_verdicts"
    made_for = "claim_judges"
    grade, n_passages = "grade", None
    schema = CLAIM_VERDICTS
    row = "One claim of one answer: whether its contexts support it, or it is to the question."
    packages: ClassVar[tuple[str, ...]] = ("sentencex",)

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        # An edge of the graph exists for all partitions or for none.
        is_edge = bool(experiment.judges_of(GROUNDEDNESS))
        is_read = key["judge"] in experiment.judges_of(GROUNDEDNESS)
        inputs = [Input("questions", QUERIES_KEY, "text")]
        for number, (name, cell) in enumerate(experiment.answer_cells.items()):
            inputs.append(Input(f"answers_{number}", answers_key(name)))
            if is_edge and experiment.answerers[cell.name].has_context:
                contexts = answer_contexts_key(name)
                inputs.append(Input(f"contexts_{number}", contexts, "texts", is_read=is_read))
        return inputs

    def _most_items(self, context: StageContext, judge: Judge) -> int:
        n_kinds = sum(kind in OF_CLAIMS for kind in judge.judges or ())
        return n_kinds * len(context.experiment.answer_cells)


def current_verdicts(context: StageContext, judge: str) -> Iterator[ArtifactKey]:
    """Yield the partitions of a judge: of passages, of answers, of claims.

    Raises:
        NotEvaluated: one is not up to date.
    """
    for asset, kinds in VERDICTS.items():
        key = ArtifactKey.of(asset, judge=judge)
        if judge in context.experiment.judges_of(*kinds):
            if context.current(key) is None:
                raise NotEvaluated(f"{key} is out of date; run `rag-assets evaluate` first")
            yield key


def relevance_items(context: StageContext, key: ArtifactKey) -> list[RelevanceItem]:
    """Return what a judge of passages judges, by question and place; a text of a query once."""
    depth = context.experiment.judges[key["judge"]].depth
    questions, documents = question_texts(context), document_texts(context)
    spans: set[tuple[str, str, int, int]] = set()
    for name, k in product(context.experiment.retrievers, context.experiment.judged_cutoffs):
        table = context.artifact(passages_key(name, k)).table()
        table = table.filter(pc.less_equal(table["rank"], depth))
        spans.update(column_values(table, *RELEVANCE_VERDICTS.key))
    return [
        RelevanceItem(query_id, questions[query_id], document_id, start, end, text)
        for query_id, document_id, start, end in sorted(spans)
        for text in [text_of(documents, (document_id, start, end))]
    ]


def correctness_items(context: StageContext) -> list[CorrectnessItem]:
    """Return the answers that judges judge, by question and text; equal ones once.

    An answer that failed has no text, and a question without a right answer no standard.
    """
    questions = question_texts(context)
    facts = context.artifact(QUERY_FACTS_KEY).table()
    golds = {query: tuple(texts) for query, texts in column_values(facts, "query_id", "answers")}
    pairs = {
        (query_id, answer)
        for name in context.experiment.answer_cells
        for answers in [context.artifact(answers_key(name)).table()]
        for query_id, answer in column_values(answers, "query_id", "answer")
        if answer is not None and golds.get(query_id)
    }
    return [
        CorrectnessItem(query_id, questions[query_id], answer, golds[query_id])
        for query_id, answer in sorted(pairs)
    ]


def claims_of(context: StageContext, judge: str) -> Iterator[tuple[str, ClaimItem]]:
    """Yield (answerer at its cut-off, claim) of all that a judge judges claim by claim.

    An answer that failed or is blank claims nothing. Groundedness needs contexts that are known.
    """
    questions, experiment = question_texts(context), context.experiment
    for kind, (name, cell) in product(OF_CLAIMS, experiment.answer_cells.items()):
        is_grounded = kind == GROUNDEDNESS
        lacks_context = is_grounded and not experiment.answerers[cell.name].has_context
        if judge not in experiment.judges_of(kind) or lacks_context:
            continue
        key = answers_key(name)
        contexts = (contexts_with_texts(context, key) if is_grounded else None) or {}
        answers = context.artifact(key).table()
        for query_id, answer in column_values(answers, "query_id", "answer"):
            if answer and answer.strip():
                texts = tuple(unit.text for unit in contexts.get(query_id, ()))
                claims = tuple(answer[start:end] for start, end in sentence_spans(answer, "en"))
                of_answer = (kind, query_id, questions[query_id], answer, texts, claims)
                yield from ((name, ClaimItem(*of_answer, n + 1)) for n in range(len(claims)))


def judged_items(context: StageContext, key: ArtifactKey) -> list[Item]:
    """Return what the judge of a partition of either stage is handed; its inputs are current."""
    return [item for item in _items(context, key) if item.kind == RELEVANCE or item.text.strip()]


def _items(context: StageContext, key: ArtifactKey) -> Sequence[Item]:
    if key.asset == ClaimVerdicts.name:
        return sorted({item for _, item in claims_of(context, key["judge"])})
    is_relevance = key.asset == RelevanceVerdicts.name
    return relevance_items(context, key) if is_relevance else correctness_items(context)


def asked_model(experiment: Experiment, key: ArtifactKey) -> tuple[LlmJudge, LlmConfig] | None:
    """Return the judge of a partition and its language model; None: it asks none."""
    judge = experiment.judges[key["judge"]]
    llm = experiment.language_model(judge.llm) if isinstance(judge, LlmJudge) else None
    return (judge, llm) if isinstance(judge, LlmJudge) and llm is not None else None


def judge_fingerprint(manifest: Manifest) -> str:
    """Return what stands for the judge of an artifact: its options, prompt, model and files.

    How replies are read is no part of it, nor is what was judged.
    """
    parts = {name: manifest.config.get(name) for name in (JUDGE, LLM)}
    return fingerprint([parts, dict(manifest.versions)])


def question_texts(context: StageContext) -> dict[str, str]:
    """Return the text of every question by its id."""
    return dict(column_values(context.artifact(QUERIES_KEY).table(), "query_id", "text"))


def _judged(
    context: StageContext, key: ArtifactKey, items: Sequence[Item]
) -> tuple[list[Verdict], dict[str, Any]]:
    """Return the verdicts on items, with facts: how many are missing, and why."""
    session = ModelSession(partial(context.completions, f"judge by {key['judge']}"))
    verdicts = list(context.experiment.judges[key["judge"]].verdicts(items, session))
    problems = Counter(verdict.problem for verdict in verdicts if verdict.grade is None)
    n_missing, notes = problems.total(), session.notes
    if problems:
        reasons = ", ".join(f"{n} {problem}" for problem, n in problems.most_common(3))
        lead = f"{n_missing} of {len(verdicts)} verdicts are missing, which is not 0"
        notes = [f"{lead}: {reasons}", *notes]
    return verdicts, {
        "n_judged": len(verdicts) - n_missing,
        "n_missing": n_missing,
        "n_unparsed": problems[UNPARSED],
        "notes": notes,
        **asked_facts(sum(verdict.unanswered for verdict in verdicts), session.served_models),
    }


def verdicts_key(kind: Kind, judge: str) -> ArtifactKey:
    """Return the verdicts of one judge that hold those of a kind."""
    (asset,) = (name for name, kinds in VERDICTS.items() if kind in kinds)
    return ArtifactKey.of(asset, judge=judge)
