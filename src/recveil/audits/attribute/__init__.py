"""Attribute inference: can somebody infer who the users are?"""
