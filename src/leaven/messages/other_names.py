"""Models and datasets that were named as another tool names them, with the form that a recipe has for them."""

import re

from leaven.catalog.card import Parameter
from leaven.catalog.other_names import Counterpart, counterpart, named_by
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Edit, Fix
from leaven.language.source import Span
from leaven.messages import describe
from leaven.messages.suggestions import search_for

KINDS = ("model", "data")


def kind_of(parameter: Parameter) -> str:
    """The kind of card that a parameter takes, where other tools have names for such; empty for others."""
    return next((kind for kind in KINDS if kind in parameter.types), "")


def unknown_value(value: syntax.Value, kind: str) -> Diagnostic:
    """`model bert-base-uncased`, `data "imdb"`: what is no name of the language."""
    name = value.value if isinstance(value, syntax.String) else value.span.text
    noun, bare = describe.KIND_NOUNS[kind], name.partition("(")[0]
    word = re.split(r"[-/ ]", bare.rpartition("/")[2])[0]
    fix = instead_of(value.span, kind, name) or search_for(word)
    return error("unknown-name", f"unknown {noun.partition(' ')[2]} `{bare}`", (value, f"expected {noun}"), fix=fix)


def instead_of(place: Span, kind: str, name: str) -> Fix | None:
    """The fix for a name of another tool, arguments included: `efficientnet-b0(pretrained=true)`."""
    return _fix(place, counterpart(kind, re.sub(r"\(.*", "", name.strip(), flags=re.DOTALL)))


def instead_of_call(call: syntax.Call, kind: str) -> Fix | None:
    """The fix for a call of another library: `timm.create_model("resnet50")`, `load_dataset("imdb")`."""
    arguments = {
        argument.keyword.path if argument.keyword else str(at): argument.value.span.text
        for at, argument in enumerate(call.arguments)
    }
    return _fix(call.span, named_by(kind, call.name.path, arguments) or counterpart(kind, call.name.path))


def _fix(place: Span, found: Counterpart | None) -> Fix | None:
    if found is None:
        return None
    lacking = f"Leaven has no {found.lacking}" if found.lacking else ""
    if not found.form:
        return Fix(f"{lacking}; `leaven catalog search` lists all names")
    if "…" in found.form:
        return Fix(f"in a recipe it is `{found.form}`{_FILLED_IN.get(found.form.partition('(')[0], '')}")
    nearest = f"{lacking}; the nearest is " if lacking else ""
    is_for_texts = found.form.startswith(("transformers.", "minilm"))
    advice = f"{nearest or 'in a recipe it is '}`{found.form}`{', a model for texts' * is_for_texts}"
    return Fix("" if nearest else "write ", (Edit(place, found.form),), place, "", advice, nearest)


_FILLED_IN = {
    "yolo": ", with the folder that has `images` and `labels`",
    "folder": ", with a folder of one sub-folder per class",
    "datasets.auto": ", with the names of its columns",
    "csv": ", with the names of its columns",
}
