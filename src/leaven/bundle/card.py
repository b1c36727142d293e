"""The card of a bundle: what a person who unpacks it reads."""

from collections.abc import Mapping
from typing import Any

from leaven.bundle.inputs import typed_example
from leaven.bundle.manifest import Manifest
from leaven.bundle.over import told
from leaven.bundle.steps import has_code
from leaven.formats.commands import typed
from leaven.formats.score_text import score_text


def card(manifest: Manifest, name: str) -> str:
    """The card as Markdown."""
    about = manifest.task.describe(manifest.target, f"{manifest.takes.noun}s")
    sections = [
        f"# {name}",
        f"{_model(manifest)} that {about.purpose}. "
        f"Weights, transforms and {about.title.lower()} are in this one file; loading it runs no code{_but(manifest)}."
        f"{f' {told(manifest.over)}' if manifest.over is not None else ''}",
        _usage(name, about.example, _example(manifest), is_trusting=needs_trust(manifest)),
        f"## {about.title}\n\n{about.outputs}",
        f"## Scores\n\n{_scores(manifest)}",
        f"## Input\n\n{_input(manifest)}",
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
        case {"by": "transformers", "name": name}:
            return f"A {name} (built by transformers)"
        case {"by": "components", "parts": parts}:
            return f"A model of {len(parts)} Leaven components"
        case {"name": name}:
            return f"A custom model, {name}"
    return "A model"


def needs_trust(manifest: Manifest) -> bool:
    """Whether the bundle holds code that must be trusted to use it."""
    return manifest.built_by.get("by") == "own" or has_code(manifest.preprocess)


def _but(manifest: Manifest) -> str:
    return " unless you allow it" if needs_trust(manifest) else ""


def _example(manifest: Manifest) -> tuple[str, str]:
    """An input, as Python and as the command line have it."""
    if manifest.takes.kind != "text":
        return '"photo.jpg"', "photo.jpg"
    if manifest.takes.size == (2,):
        return '("A man sleeps.", "Someone is asleep.")', typed_example(("", ""))
    return '"I loved every minute"', typed_example("")


def _usage(name: str, example: str, given: tuple[str, str], is_trusting: bool) -> str:
    trust, flag = (", trust_code=True", " --trust-code") if is_trusting else ("", "")
    return (
        "## Use\n\n"
        f'```python\nimport leaven\n\nmodel = leaven.load("{name}"{trust})\nprint(model({given[0]}){example})\n```\n\n'
        f"On the command line: `leaven predict {typed(name)} {given[1]}{flag}`"
    )


def _scores(manifest: Manifest) -> str:
    epoch = f"Saved after epoch {manifest.epoch}.\n\n" if manifest.epoch is not None else ""
    if not manifest.scores:
        return f"{epoch}Not measured."
    rows = (f"| {name} | {score_text(value)} |" for name, value in manifest.scores.items())
    return epoch + "\n".join(["| | |", "|---|---|", *rows])


def _input(manifest: Manifest) -> str:
    if manifest.takes.kind == "text":
        what = "A text" if manifest.takes.size == (1,) else "A pair of texts"
        longest = manifest.preprocess["arguments"]["max_length"]
        return (
            f"{what}, which the tokenizer in this file splits into at most {longest} tokens; what is beyond is cut off."
        )
    what = {"image": "An image", "array": "An array", "tensor": "A tensor"}[manifest.takes.kind]
    mode = {"L": "greyscale", "RGB": "RGB", "RGBA": "RGBA"}.get(manifest.takes.mode, "")
    shape = "×".join(map(str, manifest.shape))
    size = manifest.takes.image_size
    first = f" It is resized to {size[0]}×{size[1]} pixels first, the size of all training images." if size else ""
    return f"{what} ({mode}), which the transforms in `bundle.json` turn into a tensor of {shape}.{first}"
