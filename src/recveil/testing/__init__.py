"""What is shipped for testing: tiny worlds with known answers, for our own tests and for those of other projects."""
