"""Commands that look at data and evaluate it."""

from __future__ import annotations

import click

from rag_assets.cli.options import (
    EXPLORER,
    FILE,
    FORMAT,
    PATH,
    RETRIEVERS,
    STORE,
    TOP_KS,
    Integer,
    Number,
    command,
    flag,
    option,
)

INIT = command(
    "init",
    "start:init",
    """Write a commented experiment.yaml for the data at PATH.

    The data may have any format that `evaluate` reads. The file holds the defaults, for you to
    change. A file that exists already is left alone. A folder without questions gets a
    queries.jsonl with examples to replace, beside its documents also with --out: questions are
    read there.

    It says what it found, how long an evaluation takes, and what to do next.

    Example: rag-assets init data/handbook --out handbook.yaml
    """,
    PATH,
    option(
        "--out",
        type=FILE,
        help="File to write  [default: experiment.yaml in or beside PATH]",
    ),
    STORE,
)

ASK = command(
    "ask",
    "start:ask_retrievers",
    """Show what each retriever of PATH finds for one question.

    You need no queries.jsonl and no labels. Cheap retrievers come first, and each is printed as
    soon as it is ready. Words of the question are marked. The table at the end says which retriever
    found which passage, and at which rank. `evaluate` uses the same indexes.

    Example: rag-assets ask data/handbook "how do I return a part"
    """,
    PATH,
    click.Argument(["question"]),
    STORE,
    RETRIEVERS,
    option(
        "--top-k",
        type=Integer(min=1),
        default=5,
        metavar="K",
        help="Show this many passages of each retriever.",
    ),
    FORMAT,
)

EVALUATE = command(
    "evaluate",
    "evaluate:run_evaluation",
    """Compute what is out of date, then print the leaderboard.

    PATH is a folder with an experiment.yaml, or that file. It can also be any dataset folder or
    file; that gets the default experiment: BM25, MiniLM, their fusion, and a reranker on top.

    Without labels it prints how much the retrievers agree, and what is known about answers.

    Exit code 3: a retriever failed on some queries. The results are those of the other queries.

    Example: rag-assets evaluate data/handbook
    """,
    PATH,
    STORE,
    RETRIEVERS,
    TOP_KS,
    FORMAT,
    EXPLORER,
    flag(
        "--retry-failed",
        "Ask servers of language models and rerankers again for what they did not answer.",
    ),
    flag(
        "--allow-code",
        "Run code that the experiment names, even if it came with a fork's pull request.",
    ),
)

PLAN = command(
    "plan",
    "plan:print_plan",
    """Say what `evaluate` would compute, and why.

    Nothing is computed. Each partition is one of three: `compute`, `reuse` (the stored result
    is current) or `check` (computed only if its inputs change). `--format json` lists asset,
    partition, action and reasons.

    Example: rag-assets plan data/handbook --all
    """,
    PATH,
    STORE,
    RETRIEVERS,
    TOP_KS,
    FORMAT,
    option(
        "--all", "each", is_flag=True, help="Print a line for every partition, not for every asset."
    ),
)

VALIDATE = command(
    "validate",
    "plan:print_findings",
    """Check documents, queries and labels of PATH. Exit with 1 if there is an error.

    It looks for unknown ids, quotes that moved or vanished, evidence that no chunk covers,
    duplicates, unjudged copies of judged texts, labels whose document has changed, and drift of the
    last evaluation from the anchor. Warnings do not change the exit code.

    Example: rag-assets validate data/handbook --format csv
    """,
    PATH,
    STORE,
    option(
        "--judged",
        type=Number(0, 1),
        default=0.1,
        metavar="SHARE",
        help="Warn about cells of the last evaluation with a smaller share of judged results; 0 "
        "for never.",
    ),
    FORMAT,
)
