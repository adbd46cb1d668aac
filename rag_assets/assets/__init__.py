"""Dagster, thin: every stage of the pipeline is an asset; a body asks the pipeline and reports."""
