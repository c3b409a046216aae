"""What the user declares."""
