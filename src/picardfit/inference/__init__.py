"""What needs further fits."""
