"""Engines that run the cells of a study: processes of this machine, or Ray."""
