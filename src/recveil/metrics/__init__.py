"""What is measured: ranking quality, leakage, and the intervals around both."""
