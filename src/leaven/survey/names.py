"""The names by which a recipe may call what a library offers.

Decides the friendly spelling of a class name (`RandomResizedCrop` is `random_resized_crop`) and the other spellings
that are understood. Where several libraries have a name, the one that the survey reads first gets it.
"""

import re

_IRREGULAR = {
    **{name: name.lower() for name in ("RMSprop", "EuroSAT", "ImageNet", "UCF101", "HMDB51", "SQuAD")},
    "RandomIoUCrop": "random_iou_crop",
    "LFWPeople": "lfw_people",
    "LFWPairs": "lfw_pairs",
    "CramersV": "cramers_v",
    "TheilsU": "theils_u",
    "TschuprowsT": "tschuprows_t",
    "RetrievalRPrecision": "retrieval_r_precision",
}
_PIECES = re.compile(r"[A-Z]+\d*(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


def snake_case(name: str) -> str:
    """`FashionMNIST` as `fashion_mnist`, `AdamW` as `adamw`: a single letter is joined to its neighbour."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    pieces = [piece.lower() for piece in _PIECES.findall(name)]
    joined: list[str] = []
    for piece in pieces:
        if joined and (len(piece) == 1 or len(joined[-1]) == 1):
            joined[-1] += piece
        else:
            joined.append(piece)
    return "_".join(joined)


def spellings(class_name: str, kind: str) -> tuple[str, ...]:
    """The friendly name of a class first, then the others that are understood."""
    name = class_name
    if kind == "loss":
        name = name.removesuffix("Loss") or name
    friendly = snake_case(name)
    others = (friendly.replace("_", ""), snake_case(class_name), class_name)
    return tuple(dict.fromkeys((friendly, *others)))


def shorter(friendly: str, taken: set[str]) -> str | None:
    """A transform's name without `random_`, where no other transform has that name."""
    short = friendly.removeprefix("random_")
    return short if short != friendly and short not in taken else None
