"""Tests, in a folder for each room of unbin; what crosses rooms lies beside them."""

import pytest

pytest.register_assert_rewrite("tests.helpers")
