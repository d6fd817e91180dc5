"""Optimal transport between classes of vectors: closed forms and sorting. Knows no recommender word."""
