"""What people and programs are shown: one module a topic.

A topic is its rows for programs, its table for a terminal, its section of the page and what a
notebook shows of it; a large one has its section in :mod:`rag_assets.report.page`.
"""
