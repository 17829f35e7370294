"""``python -m unbin`` is the ``unbin`` command."""

from unbin.cli import main

main()
