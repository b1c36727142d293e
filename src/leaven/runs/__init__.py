"""Runs as values: starting one, and reading what it left in its folder."""
