"""Layouts of agencies and of no agency, one module each, with parts that only one of them has."""
