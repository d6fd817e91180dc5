"""Trained models of other libraries: one file for each, with one function `read_model`."""
