"""Defenses of the lists that are served."""
