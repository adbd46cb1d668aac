"""Commands on labels and questions, on files of other tools, and on the files of a store."""

from __future__ import annotations

import click

from rag_assets.cli.options import (
    DRY_RUN,
    FILE,
    FORMAT,
    MAX_DAYS,
    PAPER_FORMAT,
    PATH,
    PLACE,
    STORE,
    Command,
    Integer,
    Number,
    choice,
    count,
    flag,
    group,
    option,
    output_format,
)

POOL = Command(
    "pool",
    "labelling:pool",
    """Write a sheet of what the retrievers found, for people to grade.

    The sheet (CSV) has all passages that nobody has judged yet. Their order does not show which
    retriever found what, and overlapping passages share a row. People fill in `grade`: 0 for not
    relevant, 1 or more for relevant. If only a part of the text answers, they copy that part to
    `evidence`. --import turns the grades into judgments of PATH. If any row is invalid, nothing
    is added.

    With --sample, the sheet has only the most informative passages, with the probability
    of each. Its grades (0 to 3, ? or skip) go to the log of `rag-assets label`, not to the
    judgments.

    Example: rag-assets pool data/handbook --depth 10 --out sheet.csv
    """,
    PATH,
    STORE,
    count(
        "--depth",
        help="Number of ranks to pool from each retriever  [default: 10; with --sample, "
        "the cut-off of the primary metric; never deeper than the runs]",
    ),
    option("--seed", type=int, default=0, help="Seed for the order of the rows."),
    count(
        "--sample",
        "n_sampled",
        metavar="N",
        help="Write only the next N passages of the sample that `rag-assets label` uses.",
    ),
    option("--out", type=PLACE, help="The sheet to write  [default: to stdout]"),
    option(
        "--import",
        "sheet",
        type=PLACE,
        help="Read a graded sheet, and add its grades to the labels.",
    ),
    option("--by", metavar="NAME", help="With --import of a sample sheet: who graded it."),
    option(
        "--feedback", type=PLACE, help="Read lines of user feedback, and add them to the labels."
    ),
)

LABEL = Command(
    "label",
    "labelling:label",
    """Grade passages on a page that opens in your browser.

    The page shows one question and one passage at a time. Passages are drawn so that few grades
    show which retriever is best. You do not see which retriever found a passage. Each grade is
    saved to `labelling.jsonl`, next to the experiment, before the next passage appears. Ctrl-C
    stops it.

    With --status, it prints the estimated leaderboard, which differences are decided, and how many
    more grades would decide the rest.

    Example: rag-assets label data/handbook
    """,
    PATH,
    STORE,
    count(
        "--depth",
        help="Number of ranks to pool from each retriever  [default: the cut-off of the primary "
        "metric; never deeper than the runs]",
    ),
    option("--seed", type=int, default=0, help="Seed of a new sample."),
    option(
        "--port",
        type=Integer(min=0, max=65_535),
        default=0,
        show_default=False,
        help="Port of the page  [default: a free one]",
    ),
    option(
        "--browser/--no-browser",
        default=True,
        show_default=False,
        help="Open the page, or only print its address.",
    ),
    flag("--status", "Print the results so far, without opening a page."),
    output_format(of=("table", "json"), text="Output format of --status."),
)

JUDGE = group(
    "judge",
    """Label answers, test judges, and export their verdicts.

    Example: rag-assets judge sheet data/handbook --passages --out sheet.csv
    """,
    Command(
        "sheet",
        "judge:write_sheet",
        """Draw questions of PATH at random, and write a sheet of their answers for people to label.

        The sheet (CSV) leaves out answers that have a label, and does not show which answerer wrote
        an answer. People fill in `correct`: yes, no, or ? if they cannot tell. You can draw more
        questions later. With --passages, the sheet asks for a `grade`, 0 to 3, for every passage of
        a drawn question. With --claims, it asks for that of every claim, as judges of groundedness
        and answer_relevance give it; filled in, it is the file claim_labels.csv beside PATH.

        Example: rag-assets judge sheet data/handbook --passages --out sheet.csv
        """,
        PATH,
        STORE,
        count(
            "--questions",
            default=100,
            help="Draw this many questions, including those of earlier sheets.",
        ),
        flag("--passages", "Ask about the passages that retrievers found instead of answers."),
        flag("--claims", "Ask about each claim of the answers, without right answers."),
        option("--split", help="Draw from this split  [default: test, if there is one]"),
        option("--out", type=FILE, help="The sheet to write  [default: to stdout]"),
    ),
    Command(
        "import",
        "judge:import_sheet",
        """Add the labels of SHEET to PATH, for answers or passages.

        If any row is invalid, no label is added.

        Example: rag-assets judge import data/handbook sheet.csv --by anna
        """,
        PATH,
        click.Argument(["sheet"], type=FILE),
        STORE,
        option("--by", metavar="NAME", help="Who labelled; stored with each label."),
    ),
    Command(
        "check",
        "judge:check",
        """Test the judges of PATH: do they notice changed texts, and agree with people?

        Each trial changes texts in a known way, and counts how often the judge notices. It also
        checks that a judge's model has not judged its own work. The report shows the results.

        Exit codes: 0 every judge passes, 1 one fails, 2 wrong usage, 3 cannot tell.

        Example: rag-assets judge check data/handbook --judge strict
        """,
        PATH,
        option("--judge", metavar="NAME", help="Test only this judge  [default: all]"),
        count("--items", default=10, help="At most this many texts in each trial."),
        option(
            "--at-least",
            type=Number(min=0, max=1),
            default=0.8,
            help="A judge must notice this share of the changes.",
        ),
        option("--seed", type=Integer(min=0), default=0, help="Seed for drawing the texts."),
        output_format(of=("table", "json")),
        STORE,
    ),
    Command(
        "export",
        "judge:export",
        """Write the verdicts of a judge with its replies, word for word.

        `type: recorded` reads the file, so anyone with the file can check every verdict without an
        API key. With --retriever, the verdicts on its passages are written as labels, which
        `rag-assets score --dialect ragas` reads together with the run from `rag-assets export-run`.

        Example: rag-assets judge export data/handbook --judge strict --out a.jsonl
        """,
        PATH,
        option("--judge", required=True, metavar="NAME", help="Write the verdicts of this judge."),
        option("--retriever", metavar="NAME", help="Write labels of the units of this retriever."),
        option(
            "--out",
            required=True,
            type=FILE,
            help="File to write, with one JSON object on each line.",
        ),
        STORE,
    ),
)

GENERATE = Command(
    "generate",
    "labelling:generate",
    """Have a language model write questions about the chunks.

    With --sheet, people review the questions first, and --import makes a dataset of the good ones.
    --out alone makes a dataset of all of them. In experiment.yaml, `questions` sets what to ask
    for, and `llm` sets the model and its limits. Replies are stored, so an interrupted run
    continues where it stopped.

    Example: rag-assets generate data/handbook --sheet review.csv
    """,
    PATH,
    STORE,
    option("--sheet", type=PLACE, help="The review sheet (CSV) to write."),
    option("--out", type=PLACE, help="The dataset folder to write."),
    option("--import", "reviewed", type=PLACE, help="A reviewed sheet; needs --out."),
    DRY_RUN,
)

DEFAULT_METRICS = "ndcg@10,recall@100,map@100,mrr@100,precision@10,hit_rate@10"
SQUAD = "squad_v2_official"
DIALECTS = ("autorag", "llamaindex", "beir", "ragas", SQUAD)
"""Tools whose numbers `score` prints under their own names."""

WRITTEN_FORMATS = ("jsonl", "beir", "trec", "llamaindex")

SCORE = Command(
    "score",
    "score:score_files",
    """Score a run file against qrels.

    Example: rag-assets score --run run.trec --qrels qrels.txt --metrics ndcg@10
    """,
    option(
        "--run",
        "run_file",
        required=True,
        type=PLACE,
        help="TREC run, MS MARCO's three columns, or JSON lines with `retrieved_ids`, each "
        "also as .gz; or .parquet from export-run.",
    ),
    option(
        "--qrels",
        "qrels_file",
        required=True,
        type=PLACE,
        help="TREC qrels, BEIR qrels (.tsv, .jsonl, .parquet), judgments as .jsonl, or AutoRAG's "
        "qa.parquet.",
    ),
    option(
        "--metrics",
        help="Metrics, separated by commas, under our names or those of ir_measures or trec_eval "
        "(also its lists `official` and `all_trec`); "
        f"with --dialect, under those of that tool.  [default: {DEFAULT_METRICS}]",
    ),
    flag("--per-query", "One row for each query of the qrels."),
    flag(
        "--trec-mean",
        "Average over all queries of the qrels, like trec_eval -c. By default, only queries "
        "with a relevant document count.",
    ),
    choice(
        "--dialect",
        of=DIALECTS,
        metavar="TOOL",
        help=f"Print that tool's numbers under its names: {', '.join(DIALECTS[:-1])} or {SQUAD}. "
        f"With {SQUAD}, --run is a file of answers and --qrels a SQuAD file.",
    ),
    option(
        "--na-prob-file",
        type=PLACE,
        help=f"With {SQUAD}: probability that a question has no answer, as JSON.",
    ),
    PAPER_FORMAT,
)

CONVERT = Command(
    "convert",
    "results:convert",
    """Write documents, queries and qrels of PATH in another format.

    PATH is an experiment, or any dataset folder or file. The command lists what the format cannot
    hold.

    Example: rag-assets convert data/handbook --to beir --out handbook_beir
    """,
    PATH,
    choice("--to", of=WRITTEN_FORMATS, required=True, help="Format to write."),
    option("--out", "folder", required=True, type=PLACE, help="New folder to write."),
)

EXPORT_RUN = Command(
    "export-run",
    "results:write_run_file",
    """Write what a retriever returned in the last evaluation of PATH.

    `type: run_file` reads such a file back, and `rag-assets score` scores it.

    Example: rag-assets export-run data/handbook --retriever bm25 --out b.trec
    """,
    PATH,
    option("--retriever", required=True, metavar="NAME", help="Write the run of this retriever."),
    count("--top-k", metavar="K", help="The run at this cut-off  [default: the largest]"),
    choice(
        "--split",
        of=("dev", "test"),
        help="Only the queries for choosing (dev) or for reporting (test)  [default: all]",
    ),
    option(
        "--out",
        required=True,
        type=FILE,
        help="File to write: .jsonl, .parquet, or TREC for any other ending.",
    ),
    STORE,
)

INTERLEAVE = Command(
    "interleave",
    "results:write_interleaved",
    """Interleave the results of two retrievers of the last evaluation.

    The method is team draft. Your search shows one of the lists of a question at random, and logs
    it with `query_attributes`.

    Example: rag-assets interleave data/handbook bm25 minilm --out lists.jsonl
    """,
    PATH,
    click.Argument(["first"]),
    click.Argument(["second"]),
    count("--top-k", metavar="K", default=10, help="Results per list."),
    option("--lists", "n_lists", type=Integer(min=2), default=20, help="Lists per question."),
    option("--out", required=True, type=FILE, help="File of JSON lines to write."),
    STORE,
)

CLEAN = Command(
    "clean",
    "store:clean",
    """Remove old evaluations, unneeded files, or the text of a document.

    The latest evaluation and the anchor of every experiment always stay, with everything
    they need. So do the history of means, and orphans less than an hour old. Nothing is
    removed while an evaluation runs. What is removed from a cache has to be computed again,
    or requested and paid for again.

    --document and --text remove a text from every artifact, cache, page and database of the store,
    for all experiments. Remove it from your datasets first, or the next evaluation stores it again.

    Example: rag-assets clean --older-than 90 --orphans
    """,
    STORE,
    option("--experiment", metavar="NAME", help="Only this experiment  [default: all]"),
    option(
        "--older-than",
        type=Number(0, MAX_DAYS),
        metavar="DAYS",
        help="Remove evaluations that began more than this many days ago, and what only they need.",
    ),
    flag("--orphans", "Remove artifacts that no evaluation needs."),
    option(
        "--caches",
        type=Number(0, MAX_DAYS),
        metavar="DAYS",
        help="Remove vectors, scores and replies stored more than this many days ago.",
    ),
    option("--document", "document_id", metavar="ID", help="Remove its text everywhere."),
    option("--text", type=PLACE, metavar="FILE", help="Remove the text in this file everywhere."),
    flag("--yes", "Remove. Without this option, only list what would be removed."),
    FORMAT,
)
