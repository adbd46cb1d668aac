"""What is wrong with answerers before anything is answered: for `rag-assets validate`."""

from __future__ import annotations

import pyarrow as pa

from rag_assets.answers.contexts_stage import check_budget
from rag_assets.answers.generators import FileGenerator
from rag_assets.answers.metrics_stage import check_golds
from rag_assets.answers.prediction_files import read_predictions
from rag_assets.chunking.stage import chunks_key
from rag_assets.errors import ConfigError, DataError, ModelUnavailable
from rag_assets.evaluation.contexts_stage import contexts_key
from rag_assets.evaluation.query_facts_stage import QUERY_FACTS_KEY
from rag_assets.labels.health.findings import ERROR, WARNING, Finding, findings_table
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import QUERIES_KEY

ANSWERS, MISSING = "answers", "missing_prediction"


def answer_findings(pipeline: Pipeline) -> tuple[pa.Table, list[str]]:
    """Return findings about answerers, and what could not be looked at with its reason."""
    experiment = pipeline.experiment
    findings, skipped = list[Finding](), list[str]()
    try:
        facts = pipeline.materialize(QUERY_FACTS_KEY.asset, [QUERY_FACTS_KEY])[0].artifact.table()
        check_golds(experiment, facts)
    except (ConfigError, DataError) as error:
        findings.append(Finding(ERROR, ANSWERS, str(error)))
    used = {options.generator for options in experiment.answerers.values()}
    ids = pipeline.artifact(QUERIES_KEY).table()["query_id"].to_pylist()
    for name, generator in experiment.generators.items():
        if name not in used or not isinstance(generator, FileGenerator):
            continue
        try:
            missing = read_predictions(generator.path, ids).missing
        except DataError as error:
            findings.append(Finding(ERROR, ANSWERS, str(error)))
            continue
        message = f"{name} has no prediction for it; the answer counts as failed"
        file = str(generator.path)
        findings += [
            Finding(WARNING, MISSING, message, query_id, file=file) for query_id in missing
        ]
    for name, options in experiment.answerers.items():
        if options.budget is None:
            continue
        if options.retriever is not None and experiment.located_of(options.retriever):
            skipped.append(f"the budget of {name}: its search has chunks of its own")
            continue
        try:
            check_budget(experiment, name, _units(pipeline, name))
        except ConfigError as error:
            findings.append(Finding(ERROR, ANSWERS, str(error)))
        except (DataError, ModelUnavailable) as error:
            skipped.append(f"the budget of {name}: {error}")
    return findings_table(findings), skipped


def _units(pipeline: Pipeline, answerer: str) -> pa.Table:
    """Return the units that may stand in a context; windows around them are larger."""
    options = pipeline.experiment.answerers[answerer]
    names: tuple[str, ...] = (options.chunking,) if options.chunking is not None else ()
    if options.retriever is not None:
        names = pipeline.experiment.chunkings_of(options.retriever)
    tables = []
    for name in names:
        for key in (chunks_key(name), contexts_key(name)):
            artifact = pipeline.materialize(key.asset, [key])[0].artifact
        tables.append(artifact.table())
    return pa.concat_tables(tables)
