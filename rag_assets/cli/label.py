"""``rag-assets label``: give labels on a page, one passage at a time; say how they stand."""

from __future__ import annotations

import getpass
import webbrowser
from contextlib import suppress
from pathlib import Path

from rag_assets.cli.options import refuse_given
from rag_assets.cli.progress_bars import progress_bar
from rag_assets.cli.terminal import messages, output, print_data, print_line
from rag_assets.labels.experiment_pool import (
    labelling_pipeline,
    question_clusters,
    sampled_pool,
)
from rag_assets.labels.pool import sampled_metrics
from rag_assets.labels.sampling.label_sample import label_sample
from rag_assets.labels.sampling.sample_stage import sampled_depth
from rag_assets.pipeline.pipeline import Pipeline
from rag_assets.report.formats import as_json
from rag_assets.report.label_health import label_status, status_sheets
from rag_assets.report.terminal_table import sheets_view
from rag_assets.sources.stage import DOCUMENTS_KEY, QUERIES_KEY
from rag_assets.store.settings import StoreSettings


def label(
    path: Path,
    store: Path | None,
    depth: int | None,
    seed: int,
    port: int,
    browser: bool,
    status: bool,
    form: str,
) -> None:
    """Grade passages on a page that opens in your browser."""
    settings = StoreSettings.resolve(store)
    pipeline = labelling_pipeline(path, settings, progress_bar)
    if status:
        refuse_given(["port", "browser"], "is of the page, which --status does not open")
        _print_status(pipeline, depth, seed, form)
    else:
        refuse_given(["form"], "belongs to --status")
        _serve(pipeline, depth, seed, port, browser=browser)


def _print_status(pipeline: Pipeline, depth: int | None, seed: int, form: str) -> None:
    """Print what the labels so far say; nothing is asked."""
    depth = depth or sampled_depth(pipeline.experiment)
    sampled = sampled_pool(pipeline, depth, seed)
    lines = sampled.lines()
    sample = label_sample(sampled.pool, sampled.design, lines, sampled.earlier)
    status = label_status(
        pipeline.experiment, sample, lines, depth, question_clusters(pipeline, sampled.pool)
    )
    if form == "json":
        print_data(as_json(status))
    else:
        output().print(sheets_view(status_sheets(pipeline.experiment.name, status)))


def _serve(pipeline: Pipeline, depth: int | None, seed: int, port: int, *, browser: bool) -> None:
    """Answer the page's requests until the process is interrupted."""
    from rag_assets.labels.page.passages import Passages
    from rag_assets.labels.page.server import LabelServer
    from rag_assets.labels.page.session import LabelSession

    experiment = pipeline.experiment
    depth = depth or sampled_depth(experiment)
    pool, design, earlier, log = sampled_pool(pipeline, depth, seed)
    passages = Passages(*(pipeline.artifact(key).table() for key in (DOCUMENTS_KEY, QUERIES_KEY)))
    metric, *_ = sampled_metrics(experiment.primary, depth)
    session = LabelSession(
        *(pool, design, log, passages, metric, earlier),
        clusters=question_clusters(pipeline, pool),
        level=experiment.statistics.confidence,
    )
    server = LabelServer(session, getpass.getuser(), port)
    print_line(server.address)
    where = f"{len(pool.items)} passages in the pool; judgments go to {log}"
    messages().print(f"{where}; Ctrl-C ends it", soft_wrap=True)
    if browser:
        webbrowser.open(server.address)
    with suppress(KeyboardInterrupt):
        server.run()
