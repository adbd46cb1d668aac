"""``rag-assets generate``: questions from chunks by a language model, reviewed by people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from rag_assets.cli.options import (
    Decorated,
    Integer,
    Number,
    path_argument,
    refuse_given,
    store_option,
)
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import messages, print_line, print_note
from rag_assets.errors import DataError, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import host_notes
from rag_assets.labels.generation.from_chunks import (
    Asking,
    Generation,
    asked_host,
    estimate_generation,
    generate_from_chunks,
    is_model_named,
    reasons,
)
from rag_assets.labels.generation.question_files import (
    check_free,
    check_new_file,
    read_review,
    review_sheet,
    write_folder,
)
from rag_assets.labels.generation.question_options import SAME_LANGUAGE
from rag_assets.llm.client import MODEL_VARIABLE
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings

FILE = click.Path(path_type=Path)
_DEFAULT = Asking()

_ASKING = (
    click.option(
        "--chunking", metavar="NAME", help="Use the chunks of this chunking, if there are several."
    ),
    click.option(
        "--chunks", type=Integer(min=1), metavar="N", help="Use only N chunks, drawn with --seed."
    ),
    click.option(
        "--n",
        type=Integer(min=1),
        default=_DEFAULT.n,
        show_default=True,
        help="Questions for each chunk.",
    ),
    click.option(
        "--language",
        default=SAME_LANGUAGE,
        show_default=True,
        help="Language of the questions, as named in the prompt.",
    ),
    click.option(
        "--prompt", "template", type=FILE, help="Your own prompt file, instead of the built-in one."
    ),
    click.option(
        "--temperature",
        type=Number(min=0),
        default=_DEFAULT.temperature,
        show_default=True,
        help="Temperature of the model; 0 is the least random.",
    ),
    click.option(
        "--seed",
        type=Integer(min=0),
        default=_DEFAULT.seed,
        show_default=True,
        help="Seed of the draw and of the model.",
    ),
    click.option(
        "--max-tokens",
        type=Integer(min=1),
        default=_DEFAULT.max_tokens,
        show_default=True,
        help="At most this many tokens in an answer.",
    ),
    click.option("--model", help="Name of the model at the server."),
)
_LIMITS = (
    click.option("--max-calls", type=Integer(min=0), help="Send at most this many requests."),
    click.option("--max-cost", type=Number(min=0), help="Spend at most this much."),
    click.option("--prompt-price", type=Number(min=0), help="Price of a million prompt tokens."),
    click.option(
        "--completion-price", type=Number(min=0), help="Price of a million answer tokens."
    ),
)
_FILTERS = (
    click.option(
        "--min-words",
        type=int,
        default=_DEFAULT.min_words,
        show_default=True,
        help="Drop questions with fewer words.",
    ),
    click.option(
        "--max-copied",
        type=Number(min=0),
        default=_DEFAULT.max_copied,
        show_default=True,
        metavar="SHARE",
        help="Drop questions that copy more than this share from the chunk.",
    ),
    click.option(
        "--near-duplicate",
        type=Number(min=0),
        default=_DEFAULT.near_duplicate,
        show_default=True,
        metavar="SHARE",
        help="Two questions with this share of words in common count as one.",
    ),
)


def _with(*options: Decorated) -> Decorated:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command("generate")
@path_argument
@store_option
@_with(*_ASKING, *_LIMITS, *_FILTERS)
@click.option("--sheet", type=FILE, help="The review sheet (CSV) to write.")
@click.option("--out", type=FILE, help="The dataset folder to write.")
@click.option("--import", "reviewed", type=FILE, help="A reviewed sheet; needs --out.")
@click.option("--force", is_flag=True, help="Replace what an earlier run wrote there.")
@click.option("--dry-run", is_flag=True, help="Say how many requests it takes, and send none.")
def command(
    path: Path,
    store: Path | None,
    sheet: Path | None,
    out: Path | None,
    reviewed: Path | None,
    force: bool,
    dry_run: bool,
    **options: Any,  # noqa: ANN401 (those of Asking and Filters, which checks them)
) -> None:
    """Have a language model write questions about the chunks of PATH.

    With --sheet, people review the questions first, and --import makes a dataset of the good ones.
    --out alone makes a dataset of all of them. The model is `llm` in experiment.yaml. Without that
    it is RAG_ASSETS_LLM_MODEL at OPENAI_BASE_URL, if that is on this machine. Answers are stored,
    so a run that was stopped continues where it was.

    Example: rag-assets generate data/handbook --sheet review.csv
    """
    if reviewed is not None:
        refuse_given([*options, "dry_run"], "is of questions to ask for; --import asks nothing")
        _import(path, reviewed, sheet, out, force)
        return
    asking = _asking(options)
    if dry_run:
        _estimate(path, store, asking)
        return
    if sheet is None and out is None:
        raise UsageError("name what to write: --sheet FILE, --out FOLDER, or both")
    _warn(path, asking)
    made = _generate(path, store, asking, sheet, out, force)
    _report(made, [place for place in (sheet, out) if place is not None])


def _generate(
    path: Path,
    store: Path | None,
    asking: Asking,
    sheet: Path | None,
    out: Path | None,
    force: bool,
) -> Generation:
    """Have the model ask, and write sheet and dataset; places are checked before and after."""

    def check() -> None:
        if sheet is not None:
            check_new_file(sheet, force=force)
        if out is not None:
            check_free(out, force=force)

    check()
    made = generate_from_chunks(_opened(path, store), asking)
    check()
    if sheet is not None:
        write_text(sheet, review_sheet(made.found.questions, made.documents))
    if out is not None:
        write_folder(made.found.questions, made.documents, out, force=force)
    return made


def _opened(path: Path, store: Path | None) -> Pipeline:
    settings = StoreSettings.resolve(store)
    return Pipeline(open_experiment(path, settings), settings, progress_bar)


def _asking(options: dict[str, Any]) -> Asking:
    try:
        return Asking(**options)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--{first['loc'][0]}: {first['msg']}".replace("_", "-")) from error


def _warn(path: Path, asking: Asking) -> None:
    client = asked_host(load_experiment(path), asking)
    for line in host_notes([client] if client is not None else []):
        messages().print(f"warning: {line}", soft_wrap=True)


def _import(path: Path, reviewed: Path, sheet: Path | None, out: Path | None, force: bool) -> None:
    if sheet is not None or out is None:
        raise UsageError("--import reads a sheet and writes a dataset: give --out, and no --sheet")
    check_free(out, force=force)
    documents = load_experiment(path).dataset.read_documents().table
    review = read_review(reviewed, documents)
    if not review.questions.num_rows:
        raise DataError("no row says yes under `keep`; nothing is written", file=reviewed)
    write_folder(review.questions, documents, out, force=force)
    print_line(
        f"{out}: {review.questions.num_rows} questions kept, {review.n_refused} refused, "
        f"{review.n_open} without yes or no left out"
    )


def _estimate(path: Path, store: Path | None, asking: Asking) -> None:
    if is_model_named(load_experiment(path), asking):
        _warn(path, asking)
    else:
        print_note(
            f"no language model is named yet: by `llm` in experiment.yaml, {MODEL_VARIABLE} or "
            "--model"
        )
    estimate = estimate_generation(_opened(path, store), asking)
    cost = "" if estimate.cost_at_most is None else f", cost at most {estimate.cost_at_most:.4g}"
    print_line(f"{estimate.calls} requests to send{cost}; {estimate.cached} answers are known")


def _report(made: Generation, written: list[Path]) -> None:
    questions = made.found
    cost = "" if made.cost is None else f", cost {made.cost:.4g}"
    print_line(
        f"{questions.questions.num_rows} questions from {made.n_chunks} chunks, by {made.n_calls} "
        f"requests{cost}"
    )
    for reason, number in reasons(questions):
        print_line(f"  {number} {reason}")
    print_line(f"written: {', '.join(map(str, written))}")
