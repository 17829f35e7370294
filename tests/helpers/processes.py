"""Programs in a Python of their own."""

import subprocess
import sys


def run_python(code):
    """Run a program that must succeed, and return what it printed."""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()
