"""The cases of ``attack.py``."""
