"""A table is said once, as a `Sheet`; what draws it on a terminal, in a notebook and as text."""
