"""What can be said of one solution."""
