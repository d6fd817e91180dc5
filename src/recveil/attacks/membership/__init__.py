"""Attacks that ask of each user: was the recommender trained on this person?"""
