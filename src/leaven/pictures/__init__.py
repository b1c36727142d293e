"""Figures as image files: curves, batches, confusion matrices. Only this room imports matplotlib, and only to draw."""
