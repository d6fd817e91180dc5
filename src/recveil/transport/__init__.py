"""Optimal transport between classes of vectors: closed forms, sorting, Sinkhorn's algorithm. Knows no recommender."""
