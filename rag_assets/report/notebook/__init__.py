"""What a notebook shows of a result: HTML, data frames and figures.

Results say what they hold as an Arrow table; everything here reads that and computes nothing.
"""
