"""Defenses of a trained table of user vectors."""
