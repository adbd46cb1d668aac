"""Lexical retrieval: analyzers cut texts into tokens, BM25 engines score chunks by them."""
