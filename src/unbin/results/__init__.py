"""Results written down and drawn: saved models, plots, reports."""
