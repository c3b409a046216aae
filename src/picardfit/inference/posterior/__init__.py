"""Draws of the posterior: the log-density and its gradient for many points at once, samplers, and what draws say."""
