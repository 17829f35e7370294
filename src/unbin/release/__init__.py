"""What was published: releases, their blocks tied to rows, files that agencies write."""

from unbin.release.release import Release
from unbin.release.target import AggregatedTarget

__all__ = ["AggregatedTarget", "Release"]
