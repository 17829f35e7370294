"""What several tests share; no test module imports another."""
