"""Commands on files of other tools, and on the files of a store."""

from __future__ import annotations

from rag_assets.cli.options import (
    FILE,
    FORMAT,
    MOST_DAYS,
    PAPER_FORMAT,
    PATH,
    PLACE,
    STORE,
    Integer,
    Number,
    choice,
    command,
    flag,
    group,
    option,
)

DEFAULT_METRICS = "ndcg@10,recall@100,map@100,mrr@100,precision@10,hit_rate@10"
SQUAD = "squad_v2_official"
DIALECTS = ("autorag", "llamaindex", "beir", "ragas", SQUAD)
"""Tools whose numbers `score` prints under their own names."""

WRITTEN_FORMATS = ("jsonl", "beir", "trec", "llamaindex")

SCORE = command(
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
        help="TREC run, MS MARCO's three columns, or JSON lines with `retrieved_ids`, all .gz too; "
        "or .parquet, as export-run writes it.",
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
        help="Metrics, with commas between, by our names or those of ir_measures or trec_eval; "
        f"with --dialect, by those of that tool.  [default: {DEFAULT_METRICS}]",
    ),
    flag("--per-query", "One row for each query of the qrels."),
    flag(
        "--trec-mean",
        "Average over all queries of the qrels, as trec_eval -c does; without it, over those with "
        "a relevant document.",
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

CONVERT = command(
    "convert",
    "written_files:convert",
    """Write documents, queries and qrels of PATH in another format.

    PATH is an experiment, or any dataset folder or file. It tells you what the format cannot hold.

    Example: rag-assets convert data/handbook --to beir --out handbook_beir
    """,
    PATH,
    choice("--to", of=WRITTEN_FORMATS, required=True, help="Format to write."),
    option("--out", "folder", required=True, type=PLACE, help="New folder to write."),
)

EXPORT_RUN = command(
    "export-run",
    "written_files:write_run_file",
    """Write what a retriever returned in the last evaluation of PATH.

    `type: run_file` reads such a file back, and `rag-assets score` scores it.

    Example: rag-assets export-run data/handbook --retriever bm25 --out b.trec
    """,
    PATH,
    option("--retriever", required=True, metavar="NAME", help="Write the run of this retriever."),
    option(
        "--top-k",
        type=Integer(min=1),
        metavar="K",
        help="The run at this cut-off  [default: the largest]",
    ),
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

CLEAN = command(
    "clean",
    "store:clean",
    """Remove old evaluations, files that nothing needs, and texts.

    The latest evaluation and the anchor of every experiment always stay, with all that they need.
    The history stays too, so you keep the means over time. So does an orphan that is less than an
    hour old. Nothing is removed while an evaluation runs. What goes from a cache is computed
    again, or asked and paid for again.

    --document and --text remove a text from every artifact, cache, page and database of the store,
    for all experiments. Remove it from your datasets first, or the next evaluation stores it again.

    Example: rag-assets clean --older-than 90 --orphans
    """,
    STORE,
    option("--experiment", metavar="NAME", help="Only this experiment  [default: all]"),
    option(
        "--older-than",
        type=Number(0, MOST_DAYS),
        metavar="DAYS",
        help="Evaluations that began more than this many days ago, and what only they need.",
    ),
    flag("--orphans", "Artifacts that no evaluation needs."),
    option(
        "--caches",
        type=Number(0, MOST_DAYS),
        metavar="DAYS",
        help="Vectors, scores and replies that were stored more than this many days ago.",
    ),
    option("--document", "document_id", metavar="ID", help="The text of a document, everywhere."),
    option("--text", type=PLACE, metavar="FILE", help="The text in a file, everywhere."),
    flag("--yes", "Do it. Without this, only say what would go."),
    FORMAT,
)

WAREHOUSE = group(
    "warehouse",
    """Rebuild `warehouse.duckdb`.

    Example: rag-assets warehouse rebuild
    """,
    command(
        "rebuild",
        "store:rebuild_warehouse",
        """Rebuild the warehouse from the snapshots and the history, if it was deleted or damaged.

        Example: rag-assets warehouse rebuild
        """,
        STORE,
    ),
)
