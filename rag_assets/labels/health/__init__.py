"""Label health: what makes a metric wrong although nothing fails.

Each check is a function from Arrow tables to a table of
:data:`rag_assets.labels.health.findings.FINDINGS`. An error is a label that cannot be used; a
warning is one that can, but may not mean what it did.
"""
