"""The command line: one file for each command, shared options and output."""
