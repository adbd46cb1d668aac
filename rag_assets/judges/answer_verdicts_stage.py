"""``answer_verdicts[judge]``: whether each answer is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rag_assets.answers.stage import answers_key
from rag_assets.engine.recipe import Input
from rag_assets.engine.stage import Stage, TableProduct
from rag_assets.engine.stage_context import StageContext
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.experiment.experiment import Experiment
from rag_assets.judges.base import CORRECTNESS, CorrectnessItem, Tools
from rag_assets.schemas import ANSWER_VERDICTS
from rag_assets.sources.stage import QUERIES_KEY
from rag_assets.store.artifacts import ArtifactKey


class AnswerVerdicts(Stage):
    name = "answer_verdicts"
    dimensions: ClassVar[tuple[str, ...]] = ("judge",)
    schema = ANSWER_VERDICTS
    row = "Whether an answer is right."
    group = "answers"

    def keys(self, experiment: Experiment) -> list[ArtifactKey]:
        return [answer_verdicts_key(name) for name in experiment.judges_of(CORRECTNESS)]

    def inputs(self, experiment: Experiment, key: ArtifactKey) -> list[Input]:
        return [
            Input("queries", QUERIES_KEY, "text"),
            Input("golds", QUERY_FACTS_KEY, "answers"),
            *(Input(f"answers_{n}", answers_key(n)) for n in experiment.answer_cells),
        ]

    def config(self, context: StageContext, key: ArtifactKey) -> Mapping[str, Any]:
        return dict(context.experiment.judges[key["judge"]].described(CORRECTNESS))

    def versions(self, context: StageContext, key: ArtifactKey) -> Mapping[str, str]:
        files = context.experiment.judges[key["judge"]].verdict_files()
        return {f"file.{option}": context.file_digest(file) for option, file in files.items()}

    def compute(
        self, context: StageContext, keys: Sequence[ArtifactKey]
    ) -> Iterator[tuple[ArtifactKey, TableProduct]]:
        for key in keys:
            q = context.artifact(QUERIES_KEY).table()
            texts = dict(zip(q["query_id"].to_pylist(), q["text"].to_pylist()))
            f = context.artifact(QUERY_FACTS_KEY).table()
            golds = dict(zip(f["query_id"].to_pylist(), f["answers"].to_pylist()))
            items = set()
            for n in context.experiment.answer_cells:
                for r in context.artifact(answers_key(n)).table().to_pylist():
                    if r["answer"] is not None and golds[r["query_id"]]:
                        items.add(
                            CorrectnessItem(
                                r["query_id"],
                                texts[r["query_id"]],
                                r["answer"],
                                tuple(golds[r["query_id"]]),
                            )
                        )
            items = sorted(items)
            judge = context.experiment.judges[key["judge"]]
            tools = Tools(lambda n, llm: context.completions("judge", n, llm))
            rows = [
                {
                    "query_id": i.query_id,
                    "answer": i.answer,
                    "correct": v.grade,
                    "problem": v.problem,
                    "reply": v.reply,
                }
                for i, v in zip(items, judge.verdicts(items, tools))
            ]
            yield key, TableProduct(ANSWER_VERDICTS.from_rows(rows))


def answer_verdicts_key(judge: str) -> ArtifactKey:
    return ArtifactKey.of("answer_verdicts", judge=judge)
