"""Settings shared by all tests."""

import os

from hypothesis import settings

# the same examples in every run of CI; a developer's machine keeps exploring
settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
