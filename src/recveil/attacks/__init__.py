"""What an outsider may try with what a platform releases."""
