"""Defenses of the data: what the model is trained on is changed, and the model need not know."""
