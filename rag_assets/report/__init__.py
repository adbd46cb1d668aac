"""The HTML page, and the table of an evaluation in Python: they draw, and compute nothing."""
