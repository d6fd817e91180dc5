"""Defenses of the data: they change the interactions that a model is trained on."""
