"""The card of a bundle: what a person reads who unpacks it."""

from collections.abc import Mapping
from typing import Any

from leaven.bundle.manifest import Manifest
from leaven.bundle.over import told
from leaven.bundle.steps import has_code

MOST_CLASSES = 100


def card(manifest: Manifest, name: str) -> str:
    """The card as Markdown."""
    sections = [
        f"# {name}",
        f"{_model(manifest)} that tells {len(manifest.classes)} classes of pictures apart. "
        f"Weights, steps and classes are in this one file; nothing in it is run when it is loaded{_but(manifest)}."
        f"{f' {told(manifest.over)}' if manifest.over is not None else ''}",
        _usage(name, is_trusting=needs_trust(manifest)),
        f"## Classes\n\n{_classes(manifest.classes)}",
        f"## Scores\n\n{_scores(manifest.scores)}",
        f"## What it takes\n\n{_input(manifest)}",
        f"## Made with\n\n{', '.join(f'{package} {number}' for package, number in manifest.versions.items())}",
    ]
    return "\n\n".join(sections) + "\n"


def _model(manifest: Manifest) -> str:
    return (
        f"{_kind(manifest.built_by)}, some of whose channels are pruned,"
        if manifest.sizes
        else _kind(manifest.built_by)
    )


def _kind(built_by: Mapping[str, Any]) -> str:
    match built_by:
        case {"by": "timm" | "torchvision" as library, "name": name}:
            return f"A {name} (built by {library})"
        case {"by": "components", "parts": parts}:
            return f"A net of {len(parts)} of Leaven's components"
        case {"name": name}:
            return f"A model of its maker's own, {name}"
    return "A model"


def needs_trust(manifest: Manifest) -> bool:
    """Whether the bundle can be used only by who trusts the code in it."""
    return manifest.built_by.get("by") == "own" or has_code(manifest.preprocess)


def _but(manifest: Manifest) -> str:
    return ", unless you say that you trust its code" if needs_trust(manifest) else ""


def _usage(name: str, is_trusting: bool) -> str:
    trust, flag = (", trust_code=True", " --trust-code") if is_trusting else ("", "")
    return (
        "## Use\n\n"
        f'```python\nimport leaven\n\nmodel = leaven.load("{name}"{trust})\nprint(model("photo.jpg").top(3))\n```\n\n'
        f"On the command line: `leaven predict {name} photo.jpg{flag}`"
    )


def _classes(classes: tuple[str, ...]) -> str:
    more = [f"and {len(classes) - MOST_CLASSES} more, listed in `bundle.json`"] if len(classes) > MOST_CLASSES else []
    return ", ".join([*classes[:MOST_CLASSES], *more])


def _scores(scores: Mapping[str, float]) -> str:
    if not scores:
        return "It was not measured."
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value:.4f} |" for name, value in scores.items())])


def _input(manifest: Manifest) -> str:
    what = {"picture": "A picture", "array": "An array of a picture", "tensor": "A tensor"}[manifest.takes.kind]
    mode = {"L": "in grey", "RGB": "in colour", "RGBA": "in colour with transparency"}.get(manifest.takes.mode, "")
    shape = "×".join(map(str, manifest.shape))
    size = manifest.takes.picture_size
    first = f" It is brought to {size[0]}×{size[1]} pixels first, as all were in training." if size else ""
    return f"{what} {mode}, which the steps in `bundle.json` turn into a tensor of {shape}.{first}"
