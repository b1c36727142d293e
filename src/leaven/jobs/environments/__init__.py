"""The kinds of environments, one file each."""
