"""Attacks on what a platform releases: attribute inference and membership inference."""
