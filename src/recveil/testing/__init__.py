"""Contract tests and tiny worlds with known answers, for our own tests and for packages that add methods."""
