"""Pages of docs/reference/ that are written from the code: commands, experiment.yaml, metrics,
tables.

``python -m tests.reference_pages`` writes them (``make reference``), and a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import permutations

import click

from rag_assets import schemas
from rag_assets.answers.answerers import GENERATOR_TYPES, AnswererOptions, AnswerMetricsOptions
from rag_assets.answers.generators import Generator
from rag_assets.answers.metrics import METRICS as ANSWER_METRICS
from rag_assets.chunking.chunker import CHUNKING_TYPES, Chunker
from rag_assets.chunking.index_texts import IndexText
from rag_assets.cli import main as program
from rag_assets.compute.compute import ComputeConfig
from rag_assets.evaluation import returned_texts
from rag_assets.evaluation.measure import Measure
from rag_assets.evaluation.measures import MEASURE_TYPES
from rag_assets.evaluation.metric_names import (
    ALIASES,
    MEASURES,
    Metric,
    needs_cutoff,
    parameters_of,
)
from rag_assets.evaluation.metrics import query_metrics
from rag_assets.evaluation.trec_measures import NO_METRICS
from rag_assets.experiment import config
from rag_assets.experiment.config import ChecksConfig, DriftConfig, ScheduleConfig
from rag_assets.experiment.llm import LlmConfig
from rag_assets.judges.registry import JUDGE_TYPES
from rag_assets.labels.findings import FINDINGS
from rag_assets.labels.questions import QuestionOptions
from rag_assets.options import FileOptions, Options
from rag_assets.pipeline.stages import STAGES
from rag_assets.schemas import TableSchema
from rag_assets.sheets import environment as glossary
from tests.made_tables import N_UNITS, judgment_table, query_table, run_table
from tests.option_tables import options_rows
from tests.walked_page import DOCS

FOLDER = DOCS / "reference"
WRITTEN = "<!-- Written from the code by `make reference`; an edit here is lost. -->\n\n"

EXPERIMENT_KEYS: Mapping[str, str] = {
    "name": "of the experiment; without it, that of its folder, or of a file with another name",
    "dataset": "[where the data is](#dataset), and what is judged",
    "chunking": "name of a chunking -> [how it cuts](#chunking), and "
    "[by which texts](../index_texts.md) its chunks are found",
    "questions": "[questions that a language model writes](#questions) from chunks, in place of "
    "queries and labels of the dataset; see [generation.md](../generation.md#in-an-experiment)",
    "query_sets": "name of a query set -> [how it is made](../query_sets.md)",
    "llm": "[the language model](#llm) behind query sets, questions and listwise reranking",
    "llms": "name of a language model -> [its options](#llm); query sets name one by `llm`",
    "retrievers": "name of a retriever -> [its type and options](../retrievers.md); without any "
    "BM25, MiniLM, their fusion, and that reranked",
    "generators": "name of a generator -> [what writes an answer](#generators)",
    "answers": "name of an answerer -> [a generator and its context](#answers)",
    "answer_metrics": "[how answers are measured](#answer_metrics)",
    "nuggets": "a file of facts that good answers state; `nuggets.jsonl` without it, see "
    "[answers.md](../answers.md#nuggets)",
    "answer_labels": "a file of what people say of answers; `answer_labels.jsonl` without it, see "
    " [judges.md](../judges.md)",
    "passage_labels": "likewise of passages of drawn questions; `passage_labels.jsonl` without it",
    "judgments_log": "likewise of passages drawn one by one; `labelling.jsonl` without it",
    "online": "[logs of a production search](#online): clicks and votes, see "
    "[online metrics](../how_to/online.md)",
    "judges": "name of a judge -> [who gives verdicts](#judges), see [judges.md](../judges.md)",
    "top_k": "the cut-offs of runs and metrics",
    "metrics": "[metrics](metrics.md) at each top_k; one with a cut-off of its own adds that one",
    "primary": "the metric that ranks the leaderboard, and that gates and tests go by; `ndcg@10`, "
    "or the nearest that there is, without it",
    "baseline": "the retriever that others are compared with; the first one without it",
    "split": "[dev and test](#split); without it all queries count",
    "weight": "the metadata field of queries that weighs them in all means but sampled estimates",
    "statistics": "[intervals and tests](#statistics)",
    "measurements": "[what is timed](#measurements)",
    "context": "[what counts tokens](#context)",
    "checks": "[how grave a failed check is](#checks), and where [drift](../drift.md) begins",
    "floors": "[what a metric has to be](#floors), whatever it was: `{metric: number}`, or a list "
    "of blocks ([history.md](../history.md#floors))",
    "filters": "whether all base retrievers keep to what a query's metadata asks for "
    "([filters.md](../filters.md))",
    "schedule": "[when Dagster evaluates it again](#schedule)",
    "deps": "assets of the Dagster project that bring the documents, queries or qrels "
    "([dagster.md](../dagster.md#what-comes-before))",
    "compute": "[where models and searches are computed](#compute): here, or on a "
    "[Ray cluster](../cluster.md)",
}
"""Key of experiment.yaml -> what it means."""

BLOCKS: Mapping[str, type[Options]] = {
    "dataset": config.DatasetConfig,
    "questions": QuestionOptions,
    "llm": LlmConfig,
    "split": config.SplitConfig,
    "statistics": config.StatisticsConfig,
    "measurements": config.MeasurementsConfig,
    "context": config.ContextConfig,
    "checks": ChecksConfig,
    "checks.drift": DriftConfig,
    "floors": config.FloorConfig,
    "schedule": ScheduleConfig,
    "compute": ComputeConfig,
    "online": config.OnlineConfig,
    "answer_metrics": AnswerMetricsOptions,
}


def commands_page() -> str:
    lines = ["# Commands\n\n", WRITTEN, "Look up here what a command and its options do.\n\n"]
    lines.append(f"```\n{_help_of(program, ()).rstrip()}\n```\n")
    for words, command in _commands():
        lines.append(f"\n## {' '.join(words)}\n\n```\n{_help_of(command, words).rstrip()}\n```\n")
    return "".join(lines)


def _commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    assert isinstance(program, click.Group)
    for name, command in program.commands.items():
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, below), one) for below, one in command.commands.items())


def _help_of(command: click.Command, words: tuple[str, ...]) -> str:
    info = " ".join(("rag-assets", *words))
    names = program.context_settings["help_option_names"]
    context = click.Context(command, info_name=info, terminal_width=80, help_option_names=names)
    # Click keeps the option of the first context, and some tests invoke a command by itself.
    command._help_option = None
    with context:
        text = command.get_help(context)
    shared = r"\n  -q, --quiet .*?(?=\n  -h, --help)"
    return re.sub(shared, "", text, flags=re.DOTALL) if words else text


def experiment_page() -> str:
    described = config.ExperimentConfig.model_json_schema(by_alias=True)["properties"]
    if set(described) != set(EXPERIMENT_KEYS):
        raise LookupError(f"EXPERIMENT_KEYS: {set(described) ^ set(EXPERIMENT_KEYS)}")
    parts = [
        "# experiment.yaml\n\n",
        WRITTEN,
        "Look up here what you can write into an `experiment.yaml`. Every key is optional, and an "
        "unknown key is an error.\n"
        "A file has at most 256 KiB, and 50,000 values with its aliases written out. Whole numbers "
        "fit 64 bits. A name has at\nmost 100 characters.\n",
    ]
    parts.append("\n| key | default | allowed | meaning |\n|---|---|---|---|\n")
    for row in options_rows(config.ExperimentConfig):
        meaning = EXPERIMENT_KEYS[row.option]
        parts.append(f"| `{row.option}` | {row.default} | {row.allowed} | {meaning} |\n")
    for name, model in BLOCKS.items():
        parts.append(f"\n## {name}\n\n{_block(model)}")
    parts += _blocks("chunking", "a chunking, by the name that retrievers use", CHUNKING_TYPES)
    parts.append(f"\n### index_texts\n\nOf every chunking.\n\n{_block(IndexText)}")
    parts += _blocks("generators", "a generator, by the name that answerers use", GENERATOR_TYPES)
    parts.append(f"\n## answers\n\nA block an answerer.\n\n{_block(AnswererOptions)}")
    parts += _blocks("judges", "a judge, by a name of your choice", JUDGE_TYPES)
    return "".join(parts)


def _blocks(key: str, each: str, types: Mapping[str, type[Options]]) -> Iterator[str]:
    yield f"\n## {key}\n\nA block {each}.\n"
    for name, model in types.items():
        yield f"\n### {name}\n\n{_block(model)}"


def _block(model: type[Options]) -> str:
    rows = "".join(
        f"| `{row.option}` | {row.default} | {row.allowed} |\n"
        for row in options_rows(model)
        if row.option not in ("strategy", "index_texts")  # which has a heading of its own
    )
    table = f"\n| option | default | allowed |\n|---|---|---|\n{rows}" if rows else ""
    nested = "".join(
        f"\n### {name}\n\n{_block(field.annotation)}"
        for name, field in model.model_fields.items()
        if inspect.isclass(field.annotation)
        and issubclass(field.annotation, Options)
        and not inspect.isabstract(field.annotation)  # one of several, which have their headings
    )
    return f"{_prose(_inherited_doc(model))}\n{table}{nested}"


_BASES = (Options, FileOptions, Chunker, Generator)
"""What they say is for those who write a member, not for users of one."""


def _inherited_doc(model: type[Options]) -> str:
    bases = [one for one in model.__mro__ if issubclass(one, Options) and one not in _BASES]
    return "\n\n".join(inspect.cleandoc(one.__doc__) for one in bases if one.__doc__)


def metrics_page() -> str:
    formulas = {
        **{name: _formula(measure) for name, measure in MEASURE_TYPES.items()},
        "answer_hit": _prose(returned_texts.ANSWER_HIT),
    }
    parts = ["# Metrics\n\n", WRITTEN]
    parts.append(
        "Look up here the name of a metric. [semantics.md](../semantics.md) has the full formulas "
        "and what they are equal to, [evidence.md](../evidence.md) has groups, and "
        "[context_cost.md](../context_cost.md) has `answer_hit`. A name may have a cut-off "
        "(`ndcg@10`) and parameters (`rbp(p=0.9)@10`). A metric looks at the order if another "
        "order of the same first k can change it. In statistics precision is the positive "
        "predictive value (PPV), recall is the sensitivity or true positive rate (TPR), and `tp`, "
        "`fp`, `fn` and `tn` are the confusion matrix.\n\n"
        "| metric | formula | parameters | other names | order |\n|---|---|---|---|---|\n"
    )
    for measure in MEASURES:
        given = ", ".join(f"`{k}` ({v:g})" for k, v in sorted(parameters_of(measure).items()))
        names = ", ".join(f"`{alias}`" for alias, known in ALIASES.items() if known == measure)
        needed = "; needs a cut-off" if needs_cutoff(measure) else ""
        formula = f"{_cell(formulas[measure])}{needed}"
        order = "yes" if looks_at_order().get(measure) else "no"
        parts.append(f"| `{measure}` | {formula} | {given} | {names} | {order} |\n")
    parts.append(
        "\n## Of answers\n\nEdge cases of them stand in [answers.md](../answers.md).\n\n"
        "| metric | formula | source |\n|---|---|---|\n"
    )
    for name, metric in ANSWER_METRICS.items():
        parts.append(f"| `{name}` | {_cell(metric.formula)} | {_cell(metric.source)} |\n")
    parts.append(
        "\n## Of trec_eval, and no metric of an experiment\n\n"
        "`metrics` refuses these with the reason. `rag-assets score` takes some of them, see "
        "[semantics.md](../semantics.md#the-other-measures-of-trec_eval).\n\n"
        "| name | is |\n|---|---|\n"
    )
    parts.extend(f"| `{name}` | {_cell(reason)} |\n" for name, reason in NO_METRICS.items())
    return "".join(parts)


@cache
def looks_at_order() -> dict[str, bool]:
    """Return measure -> whether some order of five units, all in the first five, has another."""
    units = [("a", "a", 3), ("b", "b", 1), ("c", "c", 2), ("n", "n", 0), ("d", None, 1)]
    orders = {"".join(order): list(order) for order in permutations("abcnx")}
    labels = judgment_table((query, *unit) for query in orders for unit in units)
    metrics = [Metric(measure) for measure in MEASURE_TYPES]
    table = query_metrics(
        {"r": run_table(orders)},
        {"j": labels},
        {"r": "j"},
        query_table(orders),
        [("r", 5)],
        metrics,
        {"r": N_UNITS},
    )["r", 5]
    return {m.measure: len(set(table[m.column].to_pylist())) > 1 for m in metrics}


def _formula(measure: type[Measure]) -> str:
    return _prose(f"{measure.formula} ({measure.source})" if measure.source else measure.formula)


def tables_page() -> str:
    stages: dict[str, list[str]] = {}
    for name, stage in STAGES.items():
        if stage.schema is not None:  # an index is a folder
            stages.setdefault(stage.schema.name, []).append(name)
    of_stages = (stage.schema for stage in STAGES.values())
    declared = [*vars(schemas).values(), *of_stages, FINDINGS]
    tables = {one.name: one for one in declared if isinstance(one, TableSchema)}
    parts = ["# Tables\n\n", WRITTEN]
    parts.append(
        "Look up here what a column means, in the files of the store, the warehouse and "
        "`--format json`. The types are those of Arrow. A table of metrics has one more column for "
        "each metric that the experiment asks for.\n"
    )
    for table in tables.values():
        of = ", ".join(f"`{name}`" for name in stages.get(table.name, ()))
        parts.append(f"\n## {table.name}\n\nA row is {_cell(table.row)}.")
        parts.append(f" Key: {', '.join(f'`{name}`' for name in table.key)}.")
        parts.append(f" Assets: {of}.\n" if of else "\n")
        parts.append("\n| column | type | meaning |\n|---|---|---|\n")
        for column in table.columns:
            kind = _cell(f"{column.type}{' or null' if column.nullable else ''}")
            parts.append(f"| `{column.name}` | {kind} | {_cell(column.meaning)} |\n")
    return "".join(parts)


WORDS: Mapping[str, str] = {
    "retriever": "a way to search: it gives an ordered list of passages for a question",
    "@k, top_k": "only the first k results count: ndcg@10 looks at the first ten",
    "label": "a person's judgment of a passage for a question: right or not",
    "interval": "where the mean would most likely be with other questions of the same kind",
    "p": "how often chance alone gives so large a difference; below .05 a difference is called "
    "real",
    "Holm": "a correction of p for many comparisons at once: of twenty comparisons between equals, "
    "one is below .05 by chance",
    "tied": "the difference is not shown to be real; it may be there, and more questions may show "
    "it",
    "baseline": "the retriever that the others are compared with",
    "tokens of context": "how much text the results add to a prompt; a token is about "
    "three quarters of a word",
    "cluster": "questions that share documents: they tend to be right or wrong together, so they "
    "count as fewer",
    "anchor": "a pinned evaluation with which later ones are compared",
    "answerer": "a generator with its context, such as that of a retriever at a cut-off",
    "cell": "one retriever at one top_k",
    "chunk": "a piece of a document, as a chunking cuts it; it is what retrievers search",
    "evaluation": "one run of an experiment over all its cells; the store keeps each one",
    "evidence": "the part of a document that answers a question, as a span of characters",
    "fingerprint": "a digest of everything that determines a result; equal ones are computed once",
    "materialize": "Dagster's word for computing an asset, or one partition of it",
    "partition": "a part of an asset that is computed by itself, such as one cell",
    "qrels": "labels: which documents or spans are relevant for which question, and how much",
    "query set": "the questions as a retriever searches for them: original or rewritten",
    "run": "the ranked results of a retriever for all questions",
    "store": "the folder or bucket with all results",
    "unit": "what a ranking lists and labels judge: a chunk, or a document",
    "verdict": "the judgment of a model or a rule on a passage or an answer; never a label",
}
"""Word -> what it means in the report and in the pages."""


def glossary_page() -> str:
    """Return the page of words."""
    parts = ["# Glossary\n\n", WRITTEN]
    parts.append(
        "Look up here what a word means. The report shows those of metrics when you hover.\n"
    )
    for title, words in (("Metrics", glossary.METRICS), ("Words", WORDS)):
        parts.append(f"\n## {title}\n\n| word | meaning |\n|---|---|\n")
        parts += (f"| `{name}` | {_cell(words[name])} |\n" for name in sorted(words, key=str.lower))
    return "".join(parts)


def _prose(text: str) -> str:
    text = re.sub(r":\w+:`[~.]?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").strip()


def _cell(text: str) -> str:
    """Return a text for a cell of a table: no bars, and nothing that reads as a tag."""
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "experiment.md": experiment_page,
    "glossary.md": glossary_page,
    "metrics.md": metrics_page,
    "tables.md": tables_page,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
