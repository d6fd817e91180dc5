"""Input and output files: tables, text, vectors, attributes, ids."""
