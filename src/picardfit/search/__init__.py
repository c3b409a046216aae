"""From a problem to a trusted optimum."""
