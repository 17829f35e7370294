"""Studies: one file each, whose STUDY the registry finds."""
