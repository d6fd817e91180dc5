"""Membership inference: can somebody tell whose data the model was trained on?"""
