"""Methods: one file each, whose METHOD the registry finds."""
