"""Types, protocols, errors and small tools that every room uses; imports nothing of ours."""
