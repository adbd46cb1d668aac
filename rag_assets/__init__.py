"""Which retrieval configuration is best on your questions, kept up to date as Dagster assets."""

from __future__ import annotations

__version__ = "0.1.0"
