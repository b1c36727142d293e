"""The card of a bundle: what a person who unpacks it reads."""

import json
from collections.abc import Mapping
from typing import Any

from leaven.bundle.inputs.protocol import Example
from leaven.bundle.manifest import Manifest
from leaven.bundle.over import requirements
from leaven.bundle.steps import has_code
from leaven.formats.trained import is_built_by_code
from leaven.terminal.commands import typed
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import as_code, in_markdown, visible


def card(manifest: Manifest, name: str) -> str:
    """The card as Markdown."""
    about = manifest.task.describe(manifest.target, f"{manifest.takes.noun}s")
    model = _kind(manifest.built_by) + (", some of whose channels are pruned," if manifest.sizes else "")
    no_code = "no code unless you allow it" if needs_trust(manifest) else "no code"
    sections = [
        f"# {in_markdown(name)}",
        f"{model} that {about.purpose}. "
        f"Weights, transforms and {about.title.lower()} are in this one file; loading it runs {no_code}."
        f"{f' {requirements(manifest.over)}' if manifest.over is not None else ''}",
        _usage(name, about.example, manifest.takes.example, is_trusting=needs_trust(manifest)),
        f"## {about.title}\n\n{about.outputs}",
        f"## Scores\n\n{_scores(manifest)}",
        f"## Input\n\n{manifest.takes.described(manifest.shape, manifest.preprocess)}",
        f"## Made with\n\n{in_markdown(', '.join(f'{name} {number}' for name, number in manifest.versions.items()))}",
    ]
    return "\n\n".join(sections) + "\n"


def _kind(built_by: Mapping[str, Any]) -> str:
    match built_by:
        case {"by": "timm" | "torchvision" | "transformers" as library, "name": name}:
            return f"A {in_markdown(name)} (built by {library})"
        case {"by": "components", "parts": parts}:
            return f"A model of {len(parts)} Leaven components"
        case {"by": "changed", "first": first}:
            return f"{_kind(first)}, changed by custom code"
        case {"name": name}:
            return f"A custom model, {in_markdown(name)}"
    return "A model"


def needs_trust(manifest: Manifest) -> bool:
    """Whether the bundle holds code that must be trusted to use it."""
    return is_built_by_code(manifest.built_by) or has_code(manifest.preprocess)


def _usage(name: str, example: str, given: Example, is_trusting: bool) -> str:
    trust, flag = (", trust_code=True", " --trust-code") if is_trusting else ("", "")
    return (
        "## Use\n\n"
        f"```python\nimport leaven\n\nmodel = leaven.load({json.dumps(visible(name), ensure_ascii=False)}{trust})\n"
        f"print(model({given.python}){example})\n```\n\n"
        f"On the command line: {as_code(f'leaven predict {typed(name)} {given.typed}{flag}')}"
    )


def _scores(manifest: Manifest) -> str:
    epoch = f"Saved after epoch {in_markdown(str(manifest.epoch))}.\n\n" if manifest.epoch is not None else ""
    if not manifest.scores:
        return f"{epoch}Not measured."
    rows = (f"| {in_markdown(name)} | {score_text(value)} |" for name, value in manifest.scores.items())
    caveats = "".join(f"\n\n{in_markdown(caveat)}." for caveat in manifest.caveats)
    return epoch + "\n".join(["| | |", "|---|---|", *rows]) + caveats
