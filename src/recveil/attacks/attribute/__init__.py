"""Attribute inference: guessing who a user is from what the platform releases about them."""
