"""Commands that evaluate data, and those that read evaluations and compute nothing anew."""

from __future__ import annotations

import click

from rag_assets.cli.options import (
    DEV_OR_TEST,
    EXPLORER,
    FILE,
    FORMAT,
    INTERSECTION,
    MEANS,
    METRIC,
    PAPER_FORMAT,
    PATH,
    PLACE,
    RETRIEVERS,
    SPLIT,
    STORE,
    TOP_KS,
    Command,
    Integer,
    Limit,
    Number,
    choice,
    count,
    flag,
    option,
)

INIT = Command(
    "init",
    "start:init",
    """Write a commented experiment.yaml for the data at PATH.

    The data may have any format that `evaluate` reads. The file holds the defaults, for you to
    change. An existing file is not overwritten. If there are no questions
    yet, a queries.jsonl with examples to replace is written next to the documents, also
    with --out.

    It prints what it found, how long an evaluation will take, and what to do next.

    Example: rag-assets init data/handbook --out handbook.yaml
    """,
    PATH,
    option("--out", type=FILE, help="File to write  [default: experiment.yaml in or beside PATH]"),
    STORE,
)

ASK = Command(
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
    count("--top-k", default=5, metavar="K", help="Show this many passages of each retriever."),
    FORMAT,
)

EVALUATE = Command(
    "evaluate",
    "evaluate:run_evaluation",
    """Compute what is out of date, then print the leaderboard.

    PATH is a folder with an experiment.yaml, or that file. It can also be any dataset folder or
    file; that gets the default experiment: BM25, MiniLM, their fusion, and a reranker on top.

    Without labels, it prints how much the retrievers agree, and what can be measured of the
    answers.

    Exit code 3: a retriever failed on some queries. The results cover the other queries.

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
        "Repeat requests that a language model or reranking server left unanswered.",
    ),
    flag(
        "--allow-code",
        "Run code that the experiment names, even if it came with a fork's pull request.",
    ),
)

PLAN = Command(
    "plan",
    "evaluate:print_plan",
    """Show what `evaluate` would compute, and why.

    Nothing is computed. Each partition is marked `compute`, `reuse` (the stored result
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
        "--all", "each", is_flag=True, help="Print one line per partition instead of one per asset."
    ),
)

VALIDATE = Command(
    "validate",
    "evaluate:print_findings",
    """Check documents, queries and labels of PATH. Exit with 1 if there is an error.

    It looks for unknown ids, quotes that moved or vanished, evidence that no chunk covers,
    duplicates, unjudged copies of judged texts, labels whose document has changed, and drift of the
    last evaluation from the anchor. Warnings do not change the exit code.

    Example: rag-assets validate data/handbook --format csv
    """,
    PATH,
    STORE,
    FORMAT,
)

LEADERBOARD = Command(
    "leaderboard",
    "results:print_leaderboard",
    """Print the leaderboard of the last evaluation of PATH.

    Example: rag-assets leaderboard data/handbook --format markdown
    """,
    PATH,
    STORE,
    RETRIEVERS,
    TOP_KS,
    PAPER_FORMAT,
    option(
        "--by",
        "slice_by",
        metavar="WHAT",
        help="One row for each slice of the queries: by `tag`, `query.<field>` or "
        "`document.<field>` (metadata of the relevant documents).",
    ),
    flag("--answers", "Show answerers instead of retrievers."),
    flag("--online", "Show clicks and votes from a search in production."),
    flag("--latency", "Show the latency and index cost of each retriever instead of metrics."),
    count(
        "--budget",
        metavar="TOKENS",
        help="Compare at an equal budget: each query gets as many units as fit in it.",
    ),
    flag("--ties", "Show how much each mean depends on the order of units with equal scores."),
    option("--metric", help="With --by: the metric to show, such as recall@10 or answer_f1."),
    DEV_OR_TEST,
)

COMPARE = Command(
    "compare",
    "comparisons:print_comparison",
    """Compare retriever B with A on the same queries, or all pairs.

    It reads the last evaluation of PATH; no search is repeated. The table and json also list the
    queries with the largest differences. Name answerers with their cut-off, such as plain@5.

    PATH and one more file may be results of another tool: a log of Inspect as JSON, samples_*.jsonl
    of lm-evaluation-harness, or rows with query_id and numbers, as `score --per-query` prints them.

    Example: rag-assets compare data/handbook --format markdown
    """,
    PATH,
    click.Argument(["retrievers"], nargs=-1, metavar="[A B]"),
    STORE,
    METRIC,
    SPLIT,
    option(
        "--show",
        type=Integer(min=0),
        default=10,
        metavar="N",
        help="With A and B: list the N largest gains of B, and its N largest losses.",
    ),
    PAPER_FORMAT,
)

ATTRIBUTION = Command(
    "attribution",
    "results:print_attribution",
    """Print at which stage each retriever found or lost the evidence.

    It reads the last evaluation of PATH, at the cut-off of its primary metric. Evidence is found;
    ranked, but cut at k; lost by the fusion or reranker; below the candidates; in no chunk; or not
    in the corpus. `ceiling` is the recall of the candidates that a fusion or reranker reads. With
    --answers, each question falls into one class, and the classes sum to 100 %.

    Example: rag-assets attribution data/handbook --queries
    """,
    PATH,
    STORE,
    RETRIEVERS,
    option(
        "--by",
        "slice_by",
        metavar="WHAT",
        help="One row for each slice of the queries and each retriever: by `tag`, `query.<field>` "
        "or `document.<field>`.",
    ),
    DEV_OR_TEST,
    flag("--queries", "List the evidence that was lost, with the text of each query."),
    flag("--answers", "Show where each question went wrong or right, from corpus to answer."),
    FORMAT,
)

HISTORY = Command(
    "history",
    "results:print_history",
    """Print a metric over the evaluations of PATH, and what changed.

    Every evaluation has a row, even if nothing changed. `clean` never removes the history.

    Example: rag-assets history data/handbook --metric recall@10 --last 50
    """,
    PATH,
    STORE,
    *MEANS,
    count("--last", default=10, metavar="N", help="Show this many of the newest evaluations."),
    FORMAT,
)

DIFF = Command(
    "diff",
    "comparisons:print_diff",
    """Show what differs between EVAL_A and EVAL_B, including metrics.

    For answerers, it lists the answers that changed, and whether the question, the context or the
    generator is the cause. It also lists new or changed pages without a judgment that now
    rank first for a question, or push its evidence down.

    Name an evaluation as `latest`, `previous` or `anchor`, or by the start or end of its id. If the
    queries or labels differ, metrics are not compared and the exit code is 1.

    Example: rag-assets diff data/handbook previous latest
    """,
    PATH,
    click.Argument(["eval_a"]),
    click.Argument(["eval_b"]),
    STORE,
    *MEANS,
    INTERSECTION,
    FORMAT,
)

GATE = Command(
    "gate",
    "comparisons:print_gate",
    """Pass or fail the last evaluation of PATH, or say `cannot tell`.

    A retriever fails if its mean dropped by more than --max-drop and the drop is unlikely to be
    chance. It passes if nothing changed, or if such a drop is ruled out. Otherwise the gate cannot
    tell, and says how large a drop these questions can show. The same rules apply to answerers
    (with --answerer or an answer metric) and to estimates from a sample of labels. An incomplete
    evaluation, or one with a failed query, always fails.

    `floors` of experiment.yaml, --at-least and --at-most set limits for a metric, whatever it was
    before; a retriever that misses one fails. With them, --against is optional.

    Exit codes: 0 pass, 1 fail, 4 cannot tell, 2 wrong usage, a floor that cannot be read where
    nothing fails, or the queries or labels differ.

    Example: rag-assets gate data/handbook --against anchor
    """,
    PATH,
    STORE,
    *MEANS,
    option(
        "--against",
        metavar="WHAT",
        help="An earlier evaluation: previous, anchor, or a part of its id.",
    ),
    option(
        "--at-least",
        multiple=True,
        type=Limit(),
        metavar="METRIC=X",
        help="A mean must be at least this, such as hit_rate@10=0.8. Can be repeated.",
    ),
    option(
        "--at-most",
        multiple=True,
        type=Limit(),
        metavar="METRIC=X",
        help="A mean may be at most this, such as fp@10=2. Can be repeated.",
    ),
    flag(
        "--bound",
        "Apply --at-least to the lower bound of the interval, --at-most to the upper one.",
    ),
    option("--max-drop", type=Number(0, 1), default=0.01, help="Largest allowed drop of a mean."),
    option(
        "--alpha",
        type=Number(0, 1, min_open=True, max_open=True),
        default=0.05,
        help="Probability that any of 20 tests against an anchor fails though nothing dropped.",
    ),
    choice(
        "--cannot-tell",
        "unknown",
        of=("pass", "fail"),
        help='Count "cannot tell" as a pass or as a fail.',
    ),
    INTERSECTION,
    FORMAT,
)

ANCHOR = Command(
    "anchor",
    "comparisons:pin_anchor",
    """Pin an evaluation for `gate` and `diff` to compare with.

    It pins EVALUATION, or the last one by default, which must be complete. `clean` never removes
    it. Run the command again to pin another one.

    Example: rag-assets anchor data/handbook latest
    """,
    PATH,
    click.Argument(["evaluation"], default="latest"),
    STORE,
    flag("--show", "Print which evaluation is pinned, without changing it."),
    FORMAT,
)

REPORT = Command(
    "report",
    "results:write_page",
    """Write the last evaluation of PATH as one HTML page.

    It prints the path of the page. The page needs no network and no other file, so you can send it
    to anyone. No search is repeated, and a page that is up to date is not written again.

    Example: rag-assets report data/handbook
    """,
    PATH,
    option(
        "--out",
        type=PLACE,
        metavar="FILE",
        help="File to write  [default: report.html, or explorer.html, in the store]",
    ),
    EXPLORER,
    STORE,
)

STATUS = Command(
    "status",
    "store:print_status",
    """List the experiments of a store, and what is out of date.

    The column `now` shows what `evaluate` would compute or check; `rag-assets plan` shows why.
    Nothing is computed.

    Exit code 3: an evaluation cannot be read. The last line says which command helps.

    Example: rag-assets status
    """,
    STORE,
    FORMAT,
)
