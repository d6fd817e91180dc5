"""File formats of tables and vectors: one file a format, with how it is read and how it is written back."""
