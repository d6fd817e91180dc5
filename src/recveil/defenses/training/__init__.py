"""Defenses in training: a loss on the user vectors beside the recommendation loss."""
