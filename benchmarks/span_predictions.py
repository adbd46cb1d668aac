"""Write what the span reader answers in an experiment, as files for ``type: file``.

    python benchmarks/span_predictions.py benchmarks/experiments/squad_answers.yaml

The contexts are those of the experiment: it is evaluated with the best sentence as every answer,
and what each answerer at each cut-off was given is read. The reader is trained on ``--train``, a
file in SQuAD's layout of other articles. Then ``rag-assets evaluate`` of the experiment itself
reads the predictions, which lie where its ``generators`` name them: one generator for each answerer
at one cut-off.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import click
import yaml
from answers_squad import read
from data_sets import REPOSITORY, find
from span_reader import Example, SpanReader, train

from rag_assets.answers.contexts_stage import answer_contexts_key, units_by_query
from rag_assets.api import evaluate
from rag_assets.experiment import load_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.settings import StoreSettings

STORE = REPOSITORY / "build" / "benchmarks" / "span_contexts"


def with_sentences(file: Path) -> Path:
    """Write the experiment with the best sentence in the place of predictions; return its file."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config["generators"] = {name: {"type": "extractive"} for name in config["generators"]}
    for block in (config["dataset"], *config.get("query_sets", {}).values()):
        block["path"] = str((file.parent / block["path"]).resolve())
    STORE.mkdir(parents=True, exist_ok=True)
    changed = STORE / file.name
    changed.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return changed


def trained(file: Path) -> SpanReader:
    """Return the reader."""
    paragraphs, questions = read(file)
    examples = [
        Example(one.text, paragraphs[one.paragraph], [answer[:2] for answer in one.answers])
        for one in questions
    ]
    return train(examples)


def predictions(pipeline: Pipeline, answerer: str, reader: SpanReader) -> dict[str, str]:
    """Return question id -> answer, from the context that the answerer was given."""
    documents = pipeline.artifact(DOCUMENTS_KEY).table()
    ids, texts = documents["document_id"].to_pylist(), documents["text"].to_pylist()
    text_of = dict(zip(ids, texts, strict=True))
    contexts = pipeline.artifact(answer_contexts_key(answerer)).table()
    passages: dict[str, list[str]] = {
        query_id: [text_of[one["document_id"]][one["start"] : one["end"]] for one in units]
        for query_id, units in units_by_query(contexts).items()
    }
    queries = pipeline.artifact(QUERIES_KEY).table().to_pylist()
    questions = [query["text"] for query in queries]
    given = [passages.get(query["query_id"], []) for query in queries]
    answers = reader.answers(questions, given)
    pairs = zip(queries, answers, strict=True)
    return {query["query_id"]: answer.text for query, answer in pairs}


def main() -> None:
    """Evaluate, train, and write a file for each answerer that reads one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--train", type=Path, help="SQuAD file; else that of the shared data")
    arguments = parser.parse_args()
    config: dict[str, Any] = yaml.safe_load(arguments.experiment.read_text(encoding="utf-8"))
    file = with_sentences(arguments.experiment)
    evaluate(file, STORE / "store")
    pipeline = Pipeline(load_experiment(file), StoreSettings.resolve(STORE / "store"))
    reader = trained(arguments.train or find("squad_train"))
    for cell, answerer in pipeline.experiment.answer_cells.items():
        generator = config["generators"][config["answers"][answerer.name]["generator"]]
        if generator["type"] != "file":
            continue
        target = arguments.experiment.parent / generator["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        found = predictions(pipeline, cell, reader)
        target.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        click.echo(f"{target}: {len(found)} answers of {cell}")


if __name__ == "__main__":
    main()
