"""Runs as values: starting and running one, and reading what it left in its folder."""
