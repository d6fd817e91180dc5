"""Bridges to what people already have: arrays and scikit-learn pipelines."""
