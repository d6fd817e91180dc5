"""Audits: attacks played under fair rules, turned into numbers with intervals and a verdict."""
