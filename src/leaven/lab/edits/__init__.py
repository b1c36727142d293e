"""Edits of an input: a photo that is darker or rotated, a sentence with another word, and how to say them again.

edit.py          a kind of edit with its parameters, and an edit: its name and its arguments
image_kinds.py   the kinds for images, a row each
text_kinds.py    the kinds for texts
kinds.py         both tables, and which kind a name means
edited.py        an input with its edits, as a value and as Python, recipe and words
phrases.py       edits read from words
"""
