"""The distribution of what was published, its moments and its score."""
