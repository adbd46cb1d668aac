"""The HTML page: its sections in their order, templates, styles and scripts.

:mod:`page` puts the sections together; what builds one lies with its topic in
:mod:`rag_assets.analysis`, or here where it is large. A section is left out where its builder
returns None; what the page's own script needs of it is under ``data`` and goes into a block of
JSON.
"""
