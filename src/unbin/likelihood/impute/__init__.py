"""Individual targets that agree with what was published."""
