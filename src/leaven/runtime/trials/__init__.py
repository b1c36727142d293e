"""Trials of a sweep that one process trains together, behind the stored outputs of frozen layers."""
