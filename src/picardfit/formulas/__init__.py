"""Text or Python functions to vectorised maps with exact Jacobians."""
