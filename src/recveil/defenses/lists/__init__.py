"""Defenses that change the lists that are served."""
