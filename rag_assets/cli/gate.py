"""``rag-assets gate``: pass, fail or cannot tell, for a CI system."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import click

from rag_assets.cli.options import (
    Number,
    answerer_option,
    cell_names,
    path_argument,
    retriever_option,
    store_option,
)
from rag_assets.cli.terminal import output, print_data, print_note
from rag_assets.errors import NotEvaluated, UsageError
from rag_assets.pipeline.evaluation_names import EvaluationNames, open_to_read
from rag_assets.report.formats import FORMATS, as_json, formatted
from rag_assets.report.gate import CANNOT_TELL, FAIL, PASS, Answer, Rules, gate
from rag_assets.report.result import EvaluationResult
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings

EXIT_CODES: dict[Answer, int] = {PASS: 0, FAIL: 1, CANNOT_TELL: 4}


@click.command("gate")
@path_argument
@store_option
@retriever_option
@answerer_option
@click.option("--metric", help="Such as recall@10 or answer_f1  [default: the primary metric]")
@click.option("--split", help="The queries of this split  [default: test where there is one]")
@click.option(
    "--against",
    required=True,
    metavar="WHAT",
    help="baseline (another retriever of the same evaluation), or an earlier evaluation: "
    "previous, anchor, or a part of its id.",
)
@click.option(
    "--max-drop",
    type=Number(0, 1),
    default=0.01,
    show_default=True,
    help="A mean may drop by this much.",
)
@click.option(
    "--alpha",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Chance that any of the 20 looks at an anchor fails although nothing dropped.",
)
@click.option(
    "--cannot-tell",
    "unknown",
    type=click.Choice(("pass", "fail")),
    help='Take "cannot tell" as a pass or as a fail.',
)
@click.option(
    "--intersection",
    is_flag=True,
    help="If queries or labels differ, compare on those that are the same in both.",
)
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the result as JUnit XML.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="How to print.",
)
@click.pass_context
def command(
    ctx: click.Context,
    path: Path,
    store: Path | None,
    retrievers: tuple[str, ...],
    answerers: tuple[str, ...],
    metric: str | None,
    split: str | None,
    against: str,
    max_drop: float,
    alpha: float,
    unknown: Literal["pass", "fail"] | None,
    intersection: bool,
    junit_file: Path | None,
    form: str,
) -> None:
    """Pass or fail the last evaluation of PATH, or say that nobody can tell.

    A retriever fails if its mean dropped by more than --max-drop and chance does not explain it. It
    passes if nothing changed, or if such a drop is ruled out. Otherwise nobody can tell, and the
    gate says about how many more questions would. The same holds for answerers, with --answerer or
    a metric of answers. An evaluation that is not complete, or in which a query failed, always
    fails.

    Exit codes: 0 pass, 1 fail, 4 cannot tell, 2 wrong usage, or the queries or labels differ.

    Example: rag-assets gate data/handbook --against anchor --junit gate.xml
    """
    settings = StoreSettings.resolve(store)
    experiment = open_to_read(path, settings)
    root = settings.store / experiment.name
    try:
        result = EvaluationResult.current(root)
        outcome = gate(
            result,
            EvaluationNames(settings, experiment.name),
            against,
            Rules(max_drop, alpha),
            metric=metric,
            split=split,
            retrievers=cell_names(retrievers, answerers),
            intersection=intersection,
        )
    except NotEvaluated as error:
        raise UsageError(str(error)) from error  # not to be mistaken for a regression
    if junit_file is not None:
        from rag_assets.report.gate_views import junit

        write_text(junit_file, junit(outcome, cannot_tell_fails=unknown == FAIL))
    if form == "json":
        print_data(as_json(outcome.as_json()))
    else:
        from rag_assets.report.gate_views import gate_csv_rows, gate_markdown, gate_view

        if form == "table":
            output().print(gate_view(outcome))
        elif form == "csv":
            print_data(formatted(gate_csv_rows(outcome), form))
        else:
            print_data(gate_markdown(outcome))
    if any(check.causes is not None and check.causes.newcomers for check in outcome.checks):
        pool = f"rag-assets pool {shlex.quote(str(path))} --out sheet.csv"
        print_note(f"the pages named as unjudged may be good answers; to grade them: {pool}")
    answer = unknown if outcome.answer == CANNOT_TELL and unknown else outcome.answer
    ctx.exit(EXIT_CODES[answer])
