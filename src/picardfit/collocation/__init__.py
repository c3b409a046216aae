"""A path on a mesh and its derivatives."""
