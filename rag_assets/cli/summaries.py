"""What each command does in a line that fits beside its name: for the list, without loading any."""

from __future__ import annotations

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "init": "Write a commented experiment.yaml for the data that is there.",
    "evaluate": "Compute what is not up to date; print the leaderboard.",
    "plan": "Say what `evaluate` would compute, and why.",
    "validate": "Check documents, queries and labels.",
    "leaderboard": "Print the leaderboard of the last evaluation.",
    "compare": "Compare two retrievers, or all pairs, on the same queries.",
    "history": "Print a metric over the evaluations, and what changed.",
    "diff": "Say what differs between two evaluations.",
    "gate": "Pass or fail the last evaluation, for a CI system.",
    "anchor": "Pin an evaluation that gates compare with.",
    "attribution": "Print at which stage the evidence was found or lost.",
    "report": "Write the last evaluation as one HTML page.",
    "score": "Score a run file against qrels.",
    "pool": "Have people judge what the retrievers found.",
    "generate": "Have a language model write questions about the chunks.",
    "convert": "Write a dataset in another format.",
    "export-run": "Write what a retriever returned, as a file.",
    "cache": "Show or prune what was computed once and is kept.",
    "clean": "Remove old evaluations, and artifacts that none names.",
    "purge": "Remove a document's text from the store.",
    "warehouse": "Write `warehouse.duckdb` anew.",
}
"""Command -> what it does, in the order of use; its module has its name."""
