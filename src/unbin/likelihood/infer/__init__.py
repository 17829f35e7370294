"""Uncertainty, tests, verdicts, ridges and choices."""
