"""overflow: 32-bit arithmetic that wraps around and then feeds an address."""
