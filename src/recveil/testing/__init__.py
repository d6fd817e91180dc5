"""Contract tests and tiny worlds with known answers, for methods of any package."""
