"""The incremental engine: which artifacts an experiment has, what determines each, what is missing.

Sits between the library, which computes, and the faces, which ask. Knows no Dagster: the same
stages are run from the command line, from Dagster and from a notebook.
"""
