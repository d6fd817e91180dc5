"""Recommenders: one file and one signature each (`core.Recommender`), one loop for those that learn by gradients."""
