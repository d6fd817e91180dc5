"""One file for each command: read, work, build the result, write."""
