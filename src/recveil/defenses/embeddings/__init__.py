"""Defenses of a table of user vectors that is already trained."""
