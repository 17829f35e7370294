"""From people and a release to a fit: placement of rows, methods, checkpoints, predictions."""
