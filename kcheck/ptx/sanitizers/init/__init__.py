"""initcheck: uses of values that were never written."""
