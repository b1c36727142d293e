"""Trials of a sweep that one process trains together, after the stored outputs of frozen layers."""
