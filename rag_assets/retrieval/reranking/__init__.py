"""Rerankers: new scores for the candidates of another retriever. One algorithm a file."""
