"""Metrics: ranking quality, attribute leakage, membership scores, and the intervals around them."""
