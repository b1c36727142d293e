"""A model by whatever names it: a bundle, a run, a checkpoint, or the name of a published model."""

import os

from leaven import bundle
from leaven.bundle import Bundle
from leaven.catalog.published import published_model
from leaven.runs.unfinished import find_unfinished, load_unfinished


def load_model(word: str | os.PathLike[str], *, trust_code: bool = False, device: str = "cpu") -> Bundle:
    """The model of a bundle or of a run, the best epoch so far of a run that is not finished, the weights of a
    checkpoint in its folder, or a published model by its name."""
    published = None if os.path.lexists(word) else published_model(os.fspath(word))
    if published is not None:
        return bundle.load_published(published, device=device)
    unfinished = find_unfinished(word)
    if unfinished is not None:
        return load_unfinished(unfinished, trust_code=trust_code, device=device)
    return bundle.load(word, trust_code=trust_code, device=device)
