"""The questions of the lab over a pipe: one process per model, so that whatever a model does ends that process alone.

    pipe.py        the loop: questions come in, answers go out, JSON and bytes
    model.py       questions to a model, or to two that are compared
    recipes.py     questions to the compiler, which never import torch
    pictures.py    thumbnails, and what is known of a picture before it is decoded

Each but the first is a program: `python -m leaven.lab.asked.model`. Who starts them is the room `api`.
"""
