"""Data on disk: one class per kind of source, with `look()` for a check and `open()` for training, if Leaven opens it.

The card of a source (`catalog/data/folder.md`) names its class and the function of the runtime that opens it. Nothing
here needs more than the standard library, but for what a file format itself needs.
"""
