"""What tests of readers share."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a table, and return its path."""

    def write_file(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file
