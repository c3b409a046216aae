"""Populations: parameters that vary between individuals, estimated by likelihood (docs/howto/population.md)."""
