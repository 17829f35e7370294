"""The root of the score, and random intercepts."""
