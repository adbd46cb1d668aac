"""Evaluations and single parts in Python, over lists, dicts and data frames: no file is needed."""
