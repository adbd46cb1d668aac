"""What an evaluation says: one module a topic, which computes its rows and says its sheets.

A topic is its rows for programs, its table for every face, its section of the page.
"""
