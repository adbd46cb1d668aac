"""``rag-assets generate``: questions from chunks by a language model, reviewed by people."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_assets.chunking.stage import chunks_key
from rag_assets.cli.options import refuse_given
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import messages, print_line
from rag_assets.errors import DataError, UsageError
from rag_assets.experiment import load_experiment
from rag_assets.experiment.hosts import host_notes, llm_client
from rag_assets.experiment.llm import LlmConfig
from rag_assets.labels.question_generation import (
    GeneratedQuestions,
    generate_questions,
    question_requests,
)
from rag_assets.labels.question_options import QuestionOptions
from rag_assets.labels.question_tables import (
    check_free,
    read_review,
    review_sheet,
    write_folder,
)
from rag_assets.llm.client import endpoint_from_environment
from rag_assets.llm.completions import Estimate, estimate
from rag_assets.pipeline.evaluation_names import open_experiment
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.sources.stage import DOCUMENTS_KEY
from rag_assets.store.atomic import write_text
from rag_assets.store.settings import StoreSettings


class Generation(NamedTuple):
    """What came of the chunks.

    Attributes:
        found: the questions, those dropped, and the chunks without one.
        documents: table of :data:`rag_assets.schemas.DOCUMENTS`.
        n_chunks: chunks that were asked about.
        n_calls: requests that were sent; all other answers were in the cache.
        cost: of these requests, in the unit of the prices; None without prices.
    """

    found: GeneratedQuestions
    documents: pa.Table
    n_chunks: int
    n_calls: int
    cost: float | None

    def reasons(self) -> list[tuple[str, int]]:
        """Return (what, how many) of dropped questions, then of chunks that gave none."""
        return _reasons(self.found)


class Asking(NamedTuple):
    """Chunks of an experiment, and how a language model is asked about them."""

    pipeline: Pipeline
    options: QuestionOptions
    llm: LlmConfig

    @classmethod
    def of(cls, path: Path, store: Path | None) -> Asking:
        """Open the experiment at ``path``, which needs neither queries nor labels.

        Raises:
            UsageError: no model is named, several chunkings are there and none is chosen, or the
                model's answers are lists of texts, of which a question is only one.
        """
        settings = StoreSettings.resolve(store)
        experiment = open_experiment(path, settings)
        names = list(experiment.chunkings)
        options = experiment.questions
        if options is None and len(names) > 1:
            problem = f"{experiment.name} has several chunkings; choose one of {', '.join(names)}"
            raise UsageError(f"{problem} (`questions: {{chunking: {names[0]}}}`)")
        options = options or QuestionOptions(chunking=names[0])
        llm = experiment.language_model(options.llm)
        if llm is None:
            llm = LlmConfig(api_key_env=endpoint_from_environment().api_key_env)
            config = experiment.config.model_copy(update={"llm": llm})
            experiment = replace(experiment, config=config)
        if llm.sequences > 1:
            problem = f"`llm` writes {llm.sequences} `sequences`, and `generate` reads one"
            raise UsageError(f"{problem}; give `sequences: 1`")
        return cls(Pipeline(experiment, settings, progress_bar), options, llm)

    def host_notes(self) -> list[str]:
        """Return a line where chunks go to a host that is not named, or without a limit."""
        client = llm_client(self.pipeline.experiment, self.options.llm)
        return host_notes([client] if client is not None and not client.is_local else [])

    def chunks(self) -> pa.Table:
        """Bring documents and chunks up to date, and return those that are asked about."""
        key = chunks_key(str(self.options.chunking))
        for one in (DOCUMENTS_KEY, key):
            self.pipeline.materialize(one.asset, [one])
        documents = self.documents() if self.options.filter else None
        return self.options.chosen_chunks(self.pipeline.artifact(key).table(), documents)

    def documents(self) -> pa.Table:
        """Return the documents; they are up to date."""
        return self.pipeline.artifact(DOCUMENTS_KEY).table()

    def estimate(self) -> Estimate:
        """Return what would be asked and what that costs at most; asks nothing, needs no key."""
        requests = question_requests(self.chunks(), self.options)
        return estimate(requests, self.llm.identity(), self.pipeline.replies, self.llm)

    def generate(self) -> Generation:
        """Ask about every chunk; neither queries nor labels are read.

        Raises:
            DataError: no question was kept; says how many were dropped why.
            BudgetReached: the limits allow no more; what was answered is kept, and found again.
            ModelUnavailable: the endpoint refuses everything, or does not serve; likewise.
        """
        chunks = self.chunks()
        label = "ask for questions"
        with self.pipeline.completions(label, chunks.num_rows, self.options.llm) as completions:
            questions = generate_questions(chunks, self.options, completions)
            budget = completions.budget
        if not questions.questions.num_rows:
            lost = ", ".join(f"{n} {what}" for what, n in _reasons(questions)) or "there was none"
            problem = f"no question is left of {chunks.num_rows} chunks: {lost}"
            raise DataError(problem, file=self.pipeline.experiment.source)
        cost = budget.cost if budget.limits.priced else None
        return Generation(questions, self.documents(), chunks.num_rows, budget.calls, cost)


def _reasons(questions: GeneratedQuestions) -> list[tuple[str, int]]:
    dropped = [(f"dropped: {reason}", number) for reason, number in questions.counts.items()]
    failures = Counter(f"without a question: {why}" for why in questions.failures.values())
    return [*sorted(dropped), *sorted(failures.items())]


def generate(
    path: Path,
    store: Path | None,
    sheet: Path | None,
    out: Path | None,
    reviewed: Path | None,
    dry_run: bool,
) -> None:
    """Have a language model write questions, or make a dataset of reviewed ones."""
    if reviewed is not None:
        refuse_given(["dry_run"], "is of questions to ask for; --import asks nothing")
        _import(path, reviewed, sheet, out)
        return
    if not dry_run and sheet is None and out is None:
        raise UsageError("name what to write: --sheet FILE, --out FOLDER, or both")
    places = [place for place in (sheet, out) if place is not None]
    for place in places:
        check_free(place)
    asking = Asking.of(path, store)
    for line in asking.host_notes():
        messages().print(f"warning: {line}", soft_wrap=True)
    if dry_run:
        needs = asking.estimate()
        cost = "" if needs.cost_at_most is None else f", cost at most {needs.cost_at_most:.4g}"
        print_line(f"{needs.calls} requests to send{cost}; {needs.cached} answers are known")
        return
    made = asking.generate()
    if sheet is not None:
        check_free(sheet)
        write_text(sheet, review_sheet(made.found.questions, made.documents))
    if out is not None:
        write_folder(made.found.questions, made.documents, out)
    cost = "" if made.cost is None else f", cost {made.cost:.4g}"
    n_questions = made.found.questions.num_rows
    print_line(
        f"{n_questions} questions from {made.n_chunks} chunks, by {made.n_calls} requests{cost}"
    )
    for reason, number in made.reasons():
        print_line(f"  {number} {reason}")
    print_line(f"written: {', '.join(map(str, places))}")


def _import(path: Path, reviewed: Path, sheet: Path | None, out: Path | None) -> None:
    if sheet is not None or out is None:
        raise UsageError("--import reads a sheet and writes a dataset: give --out, and no --sheet")
    check_free(out)
    documents = load_experiment(path).dataset.read_documents().table
    review = read_review(reviewed, documents)
    if not review.questions.num_rows:
        raise DataError("no row says yes under `keep`; nothing is written", file=reviewed)
    write_folder(review.questions, documents, out)
    print_line(
        f"{out}: {review.questions.num_rows} questions kept, {review.n_refused} refused, "
        f"{review.n_open} without yes or no left out"
    )
