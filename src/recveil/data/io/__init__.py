"""Files that people hand in and that we write: tables, text, vectors, attributes, ids."""
