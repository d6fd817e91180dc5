"""A module that cannot be imported."""

raise ImportError("a package of mine is missing")
