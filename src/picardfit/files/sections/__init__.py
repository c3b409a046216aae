"""The sections of a problem file, read one by one; faults are collected in the Source."""
