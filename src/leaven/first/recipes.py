"""The text of a first recipe, with what a newcomer changes first."""

from collections.abc import Mapping, Sequence

from leaven.catalog.value_text import quoted
from leaven.first.table import TableLook, percent, shares
from leaven.formats.imbalance import are_imbalanced
from leaven.formats.tables import PLAIN
from leaven.tasks.multilabel.target import SEPARATOR

FEW_IMAGES = 20  # too few to train more than the head
LARGE = 2_000  # texts, enough to train the whole model at once
WIDTH = 120
MOST_TOKENS = 128  # of a text: enough for a paragraph, and quick
_HEAD_FIRST = "# First only the new head, then the whole model; `leaven show` prints the learning rates.\n"


def model_call(model: str, scratch: bool) -> str:
    """The model with its pretrained weights, unless it is trained from scratch."""
    call = model if model.endswith(")") else f"{model}()"
    if scratch or "pretrained=" in call or "weights=" in call:
        return call
    return f"{call[:-1]}{', ' * (not call.endswith('()'))}pretrained=true)"


def training_on_images(total: int, epochs: int, scratch: bool) -> str:
    """How a model is trained on so many images."""
    if scratch:
        return f"train epochs={epochs}, batch=32\n"
    if total < FEW_IMAGES or epochs == 1:
        return f"freeze all - head\n\ntrain epochs={epochs}, batch=32\n"
    head = max(1, epochs // 5)
    return f'{_HEAD_FIRST}phase "head", epochs={head} {{ freeze all - head }}\nphase "all",  epochs={epochs - head}\n'


def training_on_texts(total: int, epochs: int | None, scratch: bool) -> str:
    """How a model is trained on so many texts; empty where the defaults are right."""
    if epochs is not None:
        return f"train epochs={epochs}\n"
    if not scratch and total < LARGE:
        return f'{_HEAD_FIRST}phase "head", epochs=2 {{ freeze all - head }}\nphase "all",  epochs=4\n'
    return ""


def metrics_of(classes: Mapping[str, int]) -> str:
    """The `metrics` statement, with a comment that gives the reason, where classes are imbalanced; else empty.

    Of two classes, the rare one is what matters: its F1 comes first, and so chooses the best epoch.
    """
    if not are_imbalanced(classes.values()):
        return ""
    largest, rare = (end(classes, key=lambda name: classes[name]) for end in (max, min))
    share, few = (percent(classes[name] / sum(classes.values())) for name in (largest, rare))
    if len(classes) > 2:
        imbalance = f"{share} are {word(largest)}, {few} are {word(rare)}"
        return f"\n# {imbalance}: accuracy alone would not show what is missed.\nmetrics f1(), accuracy()\n"
    most = f"\n# {share} are {word(largest)}: accuracy alone would not show that"
    return (
        f"{most} {word(rare)} is missed.\n# The first metric, the F1 of {word(rare)}, chooses the best epoch.\n"
        f"metrics f1(of={quoted(rare)}), accuracy()\n"
    )


def recipe_of_table(
    look: TableLook,
    path: str,
    root: str | None,
    model: str,
    epochs: int | None,
    scratch: bool,
    max_length: int = MOST_TOKENS,
) -> str:
    """A recipe for a table; `path` and `root` are relative to it."""
    is_text = look.roles.image is None
    block = [f"tokenize max_length={max_length}"] * is_text + ["on_bad_file skip"] * look.skips
    parts = [f"# {_summary(look)}\n"]
    parts += [f"# Guessed: {guess.explanation} (`leaven new {guess.option}`).\n" for guess in look.guesses]
    if look.roles.other_texts and len(look.roles.text) == 1:
        both = ", ".join(map(quoted, (*look.roles.other_texts[:1], *look.roles.text)))
        parts.append(f"# Two texts are read as a pair: text=[{both}].\n")
    parts += [f"model {model_call(model, scratch)}\n", f"data  {_data(look, path, root)}{_block(block)}\n"]
    parts.append(metrics_of(look.classes))
    train = training_on_texts(look.for_training, epochs, scratch)
    body = train if is_text else training_on_images(look.for_training, epochs or 10, scratch)
    return "".join(parts) + (f"\n{body}" if body else "")


def _summary(look: TableLook) -> str:
    counted = f"{look.total:,} {look.noun}"
    if look.classes:
        return f"{len(look.classes)} classes, {counted}: {word(shares(look.classes))}."
    if len(look.roles.labels) > 1:
        return f"{len(look.roles.labels)} labels, {counted}."
    if look.roles.labels:
        return f"{counted.capitalize()}, with any number of labels for each."
    return f"{counted.capitalize()}, with a number to predict for each."


def word(text: str) -> str:
    """A text in a comment: in one line, and printable."""
    return " ".join(text.encode(errors="replace").decode().split())


def _data(look: TableLook, path: str, root: str | None) -> str:
    """The data source with its arguments."""
    layout, roles = look.layout, look.roles
    arguments = [quoted(path)]
    if layout.separator is not None:
        arguments.append(f"separator={quoted(layout.separator)}")
    if layout.columns:
        arguments.append(f"columns={_list(layout.columns)}")
    if layout.header != PLAIN.header:
        arguments.append(f"header={'true' if layout.header else 'false'}")
    if layout.quote != PLAIN.quote:
        arguments.append(f"quote={quoted(layout.quote) if layout.quote is not None else 'none'}")
    if layout.encoding != PLAIN.encoding:
        arguments.append(f"encoding={quoted(layout.encoding)}")
    if roles.image is not None:
        arguments.append(f"image={quoted(roles.image.column)}")
        arguments += [f"root={quoted(root or '')}"] * (root is not None)
        arguments += [f"ending={quoted(roles.image.ending)}"] * bool(roles.image.ending)
    else:
        arguments.append(f"text={_list(roles.text) if len(roles.text) > 1 else quoted(roles.text[0])}")
    if roles.labels:
        arguments.append(f"labels={_list(roles.labels) if len(roles.labels) > 1 else quoted(roles.labels[0])}")
        if roles.label_separator not in ("", SEPARATOR):
            arguments.append(f"label_separator={quoted(roles.label_separator)}")
    else:
        name, column = ("label", roles.label) if roles.label is not None else ("target", roles.target)
        arguments.append(f"{name}={quoted(column or '')}")
        arguments += [f"decimal={quoted(roles.decimal)}"] if roles.decimal is not None else []
        arguments += [f"class_names={_list(look.class_names)}"] * bool(look.class_names)
    call = f"{look.source}({', '.join(arguments)})"
    if len(call) <= WIDTH:
        return call
    broken = ",\n".join(f"    {argument}" for argument in arguments)
    return f"{look.source}(\n{broken},\n)"


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, names))}]"


def _block(statements: Sequence[str]) -> str:
    return f" {{ {'; '.join(statements)} }}" if statements else ""
