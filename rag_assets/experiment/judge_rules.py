"""Rules between judges and the rest of an experiment: what there is to judge, and how deep."""

from __future__ import annotations

from rag_assets.errors import UsageError
from rag_assets.experiment.config import ExperimentConfig, JudgeConfig
from rag_assets.experiment.llm_rules import check_llm
from rag_assets.experiment.retriever_rules import Fail
from rag_assets.judges.base import CORRECTNESS, RELEVANCE, Kind
from rag_assets.judges.llm import LlmJudge


def checked_judge(
    name: str, judge: JudgeConfig, config: ExperimentConfig, deepest: int, fail: Fail
) -> JudgeConfig:
    """Return a judge whose files are absolute, with what it judges and its depth filled in.

    Args:
        name: of the judge.
        judge: its options.
        config: the experiment.
        deepest: the largest cut-off of any run.
        fail: makes the error.

    Raises:
        ConfigError: made by ``fail``: there is nothing of what it is to judge, no such model, or a
            prompt lacks a place.
    """
    kinds: tuple[Kind, ...] = (RELEVANCE, *((CORRECTNESS,) if config.answers else ()))
    for number, kind in enumerate(judge.judges or ()):
        if kind not in kinds:
            problem = (
                "correctness is of answers, and the experiment has none; add the key `answers`"
            )
            raise fail(("judges", name, "judges", number), problem)
    judge = judge.model_copy(update={"judges": judge.judges or kinds})
    if "depth" not in judge.model_fields_set:
        judge = judge.model_copy(update={"depth": min(judge.depth, deepest)})
    elif RELEVANCE not in (judge.judges or ()):
        problem = "is of the passages of runs, and this judge does not judge relevance"
        raise fail(("judges", name, "depth"), problem)
    elif judge.depth > deepest:
        problem = f"is {judge.depth}, and the deepest run has {deepest}; allowed: 1 to {deepest}"
        raise fail(("judges", name, "depth"), problem)
    if isinstance(judge, LlmJudge):
        _check_model(name, judge, config, fail)
    return judge


def _check_model(name: str, judge: LlmJudge, config: ExperimentConfig, fail: Fail) -> None:
    check_llm(judge.llm, ("judges", name), config, fail)
    for kind in (RELEVANCE, CORRECTNESS):
        option = f"{kind}_prompt"
        if option in judge.model_fields_set and kind not in (judge.judges or ()):
            raise fail(("judges", name, option), f"this judge does not judge {kind}")
        try:
            judge.template(kind)
        except UsageError as error:
            raise fail(("judges", name, option), str(error)) from error
