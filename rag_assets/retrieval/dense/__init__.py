"""Dense retrieval: models, vectors, a flat index of them, and exact inner product search."""
