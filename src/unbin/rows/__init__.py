"""How rows are laid out, where they lie, and how sums over them are made."""
