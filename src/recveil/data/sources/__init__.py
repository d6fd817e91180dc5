"""Public data sets: one file for each, the list of all, and how they are downloaded."""
