"""Solutions by SciPy that know nothing of Picard."""
