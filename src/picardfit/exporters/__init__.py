"""Fits as files of other programs."""
