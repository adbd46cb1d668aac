"""Commands by which people and models label passages and answers, and write questions."""

from __future__ import annotations

import click

from rag_assets.cli.options import (
    DRY_RUN,
    FILE,
    PATH,
    PLACE,
    STORE,
    Integer,
    Number,
    command,
    flag,
    group,
    option,
    output_format,
)

POOL = command(
    "pool",
    "pool:pool",
    """Write a sheet of what the retrievers found, for people to grade.

    The sheet (CSV) has all passages that nobody has judged yet. Their order does not show which
    retriever found what, and overlapping passages share a row. People fill in `grade`: 0 for not
    relevant, 1 or more for relevant. If only a part of the text answers, they copy that part to
    `evidence`. --import turns the grades into judgments of PATH. If one row is bad, nothing is
    added.

    With --sample, the sheet asks only for the passages that tell most, with the probability of
    each. Its grades (0 to 3, ? or skip) go to the log of `rag-assets label`, not to the judgments.

    Example: rag-assets pool data/handbook --depth 10 --out sheet.csv
    """,
    PATH,
    STORE,
    option(
        "--depth",
        type=Integer(min=1),
        help="How many ranks of each retriever are pooled  [default: 10, or as deep as the runs "
        "are; of a sample: as many as the primary metric looks at]",
    ),
    option("--seed", type=int, default=0, help="Seed for the order of the rows."),
    option(
        "--sample",
        "n_sampled",
        type=Integer(min=1),
        metavar="N",
        help="Write the next N passages of the sample of `rag-assets label`, not the whole pool.",
    ),
    option("--out", type=PLACE, help="The sheet to write  [default: to stdout]"),
    option(
        "--import",
        "sheet",
        type=PLACE,
        help="Read a graded sheet, and add its grades to the labels.",
    ),
    option("--by", metavar="NAME", help="With --import of a sample: who graded it."),
    option(
        "--feedback", type=PLACE, help="Read lines of user feedback, and add them to the labels."
    ),
)

LABEL = command(
    "label",
    "label:label",
    """Grade passages on a page that opens in your browser.

    The page shows one question and one passage at a time. They are drawn so that few grades tell
    which retriever is best, and you do not see which retriever found a passage. Each grade is saved
    to `labelling.jsonl`, next to the experiment, before you see the next passage. Ctrl-C ends it.

    With --status, it prints the estimated leaderboard, which differences are decided, and how many
    more grades would decide the rest.

    Example: rag-assets label data/handbook
    """,
    PATH,
    STORE,
    option(
        "--depth",
        type=Integer(min=1),
        help="How many ranks of each retriever are in the pool  [default: as deep as the primary "
        "metric looks, or the runs are]",
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
    flag("--status", "Open no page; print what the labels say so far."),
    output_format(of=("table", "json"), text="How to print --status."),
)

JUDGE = group(
    "judge",
    """Label answers, test judges, and export what they said.

    Example: rag-assets judge sheet data/handbook --passages --out sheet.csv
    """,
    command(
        "sheet",
        "judge:write_sheet",
        """Draw questions of PATH at random, and write a sheet of their answers for people to label.

        The sheet (CSV) leaves out answers that have a label, and does not say who answered. People
        fill in `correct`: yes, no, or ? if they cannot tell. You can draw more questions later.
        With --passages, the sheet asks for a `grade`, 0 to 3, for every passage of a drawn
        question.

        Example: rag-assets judge sheet data/handbook --passages --out sheet.csv
        """,
        PATH,
        STORE,
        option(
            "--questions",
            type=Integer(min=1),
            default=100,
            help="Draw this many questions, including those of earlier sheets.",
        ),
        flag("--passages", "Ask about the passages that retrievers found, not about answers."),
        option("--split", help="Draw from this split  [default: test where there is one]"),
        option("--out", type=FILE, help="The sheet to write  [default: to stdout]"),
    ),
    command(
        "import",
        "judge:import_sheet",
        """Add the labels of SHEET to PATH, for answers or passages.

        If one row is bad, no label is added.

        Example: rag-assets judge import data/handbook sheet.csv --by anna
        """,
        PATH,
        click.Argument(["sheet"], type=FILE),
        STORE,
        option("--by", metavar="NAME", help="Who labelled; stored with each label."),
    ),
    command(
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
        option(
            "--items",
            type=Integer(min=1),
            default=10,
            help="At most this many texts in each trial.",
        ),
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
    command(
        "export",
        "judge:export",
        """Write the verdicts of a judge with its replies, word for word.

        `type: recorded` reads the file, so anyone who has it can check every verdict without a key.

        Example: rag-assets judge export data/handbook --judge strict --out a.jsonl
        """,
        PATH,
        option("--judge", required=True, metavar="NAME", help="Write the verdicts of this judge."),
        option(
            "--out",
            required=True,
            type=FILE,
            help="File to write, with one JSON object on each line.",
        ),
        STORE,
    ),
)

GENERATE = command(
    "generate",
    "generate:generate",
    """Have a language model write questions about the chunks.

    With --sheet, people review the questions first, and --import makes a dataset of the good ones.
    --out alone makes a dataset of all of them. What is asked is `questions` in experiment.yaml, and
    the model with its limits is `llm` there. Answers are stored, so a run that was stopped
    continues where it was.

    Example: rag-assets generate data/handbook --sheet review.csv
    """,
    PATH,
    STORE,
    option("--sheet", type=PLACE, help="The review sheet (CSV) to write."),
    option("--out", type=PLACE, help="The dataset folder to write."),
    option("--import", "reviewed", type=PLACE, help="A reviewed sheet; needs --out."),
    DRY_RUN,
)
