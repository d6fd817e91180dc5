"""Public data sets: one file for each family, the catalog of all, and the download."""
