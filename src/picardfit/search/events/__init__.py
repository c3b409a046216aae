"""Searches of models with events: where events lie in the data, and whether a simulation confirms them."""
