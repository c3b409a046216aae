"""Experiments, unknowns and the objective, checked and immutable."""
