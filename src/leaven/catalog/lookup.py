"""Which cards a name may mean: Leaven's own first, then what the installed libraries offer.

Also finds the nearest names for a misspelt one.
"""

from collections.abc import Iterable

from leaven.catalog import library, own
from leaven.catalog.card import Card

LIBRARY_KINDS = frozenset(library.KINDS)
LIBRARIES = ("torch", "torchvision", "timm", "torchmetrics", "transformers", "starters", "leaven")

# What other tools call it. These are suggested before spellings are compared.
SYNONYMS = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "bs": "batch",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "max_epochs": "epochs",
    "dataset": "data",
    "scheduler": "schedule",
    "lr_scheduler": "schedule",
    "optim": "optimizer",
    "optimiser": "optimizer",
    "criterion": "loss",
    "metric": "metrics",
    "early_stopping": "early_stop",
    "earlystopping": "early_stop",
    "logger": "log",
    "save": "output",
    "fit": "train",
    "phases": "phase",
    "stage": "phase",
    "unlock": "unfreeze",
    "lock": "freeze",
    "num_workers": "workers",
    "wd": "weight_decay",
    "decay": "weight_decay",
    "ce": "cross_entropy",
    "crossentropy": "cross_entropy",
    "acc": "accuracy",
    "augment": "train",
    "augmentation": "train",
    "transforms": "train",
    "test": "eval",
    "shuffle": "sampler",
    "gamma": "factor",
    "t": "temperature",
    "r": "rank",
    "target_modules": "on",
    "16": "fp16",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "32",
    "monitor": "score",
    "min_delta": "at_least",
    "p": "probability",
    "prob": "probability",
    "conv2d": "conv",
    "dense": "linear",
    "fc": "linear",
    "batchnorm2d": "batch_norm",
    "batch_norm2d": "batch_norm",
    "bn": "batch_norm",
    "maxpool2d": "max_pool",
    "avgpool2d": "avg_pool",
    "adaptiveavgpool2d": "global_pool",
    "global_avg_pool": "global_pool",
    "basic_block": "res_block",
    "basicblock": "res_block",
    "se": "squeeze_excite",
    "flip": "horizontal_flip",
    "image_folder": "folder",
    "imagefolder": "folder",
    "reduce_on_plateau": "plateau",
    "cosine_annealing": "cosine",
    "onecycle": "one_cycle",
    "k": "top",
    "top_k": "top",
    "grad_clip": "clip",
    "gradient_clip": "clip",
    "amp": "precision",
    "knowledge_distillation": "distill",
    "validation": "val",
}


def find(kind: str, name: str) -> tuple[Card, ...]:
    """Every card of that kind that the name may mean; it means the first."""
    prefix, _, rest = name.partition(".")
    own_name = rest if prefix in ("leaven", "starters", "transformers") else name
    card = own.read(kind, own_name)
    found = (card,) if card is not None and name in (card.name, card.bare_name, f"leaven.{card.bare_name}") else ()
    return (*found, *library.find(kind, name)) if kind in LIBRARY_KINDS else found


def names(kind: str) -> list[str]:
    """Every bare name of that kind."""
    return [*own.names(kind), *(library.names(kind) if kind in LIBRARY_KINDS else ())]


def nearest(word: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates that `word` most likely stands for."""
    from difflib import SequenceMatcher, get_close_matches

    pool = dict.fromkeys(candidates)
    synonym = SYNONYMS.get(word.lower())
    if synonym in pool:
        return [synonym]
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in pool}
    plain = word.lower().replace("-", "_")
    if plain in folded:
        return [folded[plain]]
    close = get_close_matches(plain, folded, n=limit, cutoff=0.7)
    best = SequenceMatcher(None, plain, close[0]).ratio() if close else 0
    close = [name for name in close if SequenceMatcher(None, plain, name).ratio() > best - 0.05]
    if not close and len(plain) >= 4:
        close = [name for name in folded if name.startswith(plain) or (len(name) >= 4 and plain.startswith(name))][
            :limit
        ]
    return [folded[name] for name in close]
