"""The HTML report: one file a section builds what its template of the same name shows.

:mod:`page` puts the sections together. A section is left out where its builder returns None; what
the page's own script needs of it is under ``data`` and goes into a block of JSON.
"""
