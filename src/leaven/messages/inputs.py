"""Reports about data that does not fit the recipe or its model: task, classes, channels, image sizes."""

import re

from leaven.catalog.values import Invocation, Origin, Setting
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import Fix, write
from leaven.language.source import Span


def class_count(model: str, outputs: int, needed: str, kept: Span, data: Origin) -> Diagnostic:
    """`needed` is what the data has: `10 classes`."""
    count = needed.partition(" ")[0]
    headline = f"the head of {model} has {outputs} outputs, but the data has {needed}"
    fix = f"remove `head=keep` to get a new head with {count} output{'s' * (count != '1')}"
    return error("class-count", headline, (kept, "the head is kept"), (data, needed), fix=fix)


def class_names(fact: str, help: str, kept: Span, data: Origin, counted: str) -> Diagnostic:
    """`counted` is what the data has: `10 classes`."""
    return error("class-names", fact, (kept, "the head is kept"), (data, counted), fix=help)


def split_above_all(split: Invocation, total: float) -> Diagnostic:
    headline = f"the splits add up to {total:g}%"
    return error("wrong-value", headline, (split, "more than 100%"), fix="make them add up to 100%")


def two_sizes(size: Invocation, transforms: Origin) -> Diagnostic:
    headline = "`size` is for the default transforms, but the recipe has its own"
    fix = "remove `size`, and resize in the transforms: `resize(…)`"
    return error("two-sizes", headline, (size, "sets the image size"), (transforms, "so do these"), fix=fix)


def transforms_of_texts(name: str, transforms: Origin) -> Diagnostic:
    headline = f"`{name}` has transforms for images, but the data has texts"
    fix = f"remove `{name}`; `tokenize` says how texts are prepared"
    return error("wrong-task", headline, (transforms, "images only"), fix=fix)


def tokens_of_images(tokenize: Invocation, task: str) -> Diagnostic:
    headline = f"`tokenize` prepares texts, but the task is {task}"
    return error("wrong-task", headline, (tokenize, "texts only"), fix="remove `tokenize`")


def too_long(model: str, longest: int, wanted: int, tokenize: Invocation) -> Diagnostic:
    headline = f"{model} takes texts of up to {longest} tokens, not {wanted}"
    fix = f"use `tokenize max_length={longest}`"
    return error("out-of-range", headline, (tokenize, f"at most {longest}"), fix=fix)


def channels(model: str, wanted: int, given: int, place: Span, has_in_chans: bool) -> Diagnostic:
    transform = "rgb()" if wanted == 3 else "grayscale()"
    headline = f"{model} takes images with {wanted} channels, but these have {given}"
    otherwise = f", or give the model `in_chans={given}`" if has_in_chans else ""
    fix = f"add `-> {transform}` to the transforms{otherwise}"
    return error("input-channels", headline, (place, f"{given} channel{'s' * (given != 1)} from here on"), fix=fix)


def different_shapes(place: Span, shorter: int, is_resized: bool, example: str) -> Diagnostic:
    """`example` names two images that differ; without one, it is not known whether any do."""
    spot = (place, "keeps the aspect ratio" if is_resized else "not resized")
    fix = f"add `-> center_crop({shorter})`, or give both sides: `resize([{shorter}, {shorter}])`"
    if not example:
        fact = "images of different shapes after these transforms can't be batched"
        return warning("input-size", fact, spot, fix=f"if their shapes differ, {fix}")
    fact = "the images have different shapes after these transforms, so they can't be batched"
    return error("input-size", fact, spot, notes=(example,), fix=fix)


def other_size(
    model: str, takes: tuple[int, int], size: tuple[int, int], place: Span, has_img_size: bool
) -> Diagnostic:
    headline = f"{model} takes images of {takes[0]} x {takes[1]}, not {size[0]} x {size[1]}"
    more = f", or give the model `img_size={size[0]}`" if has_img_size else ""
    return _wrong_size(headline, size, place, takes[0], more)


def too_small(model: str, smallest: int | None, size: tuple[int, int], place: Span, usual: int) -> Diagnostic:
    """`smallest` is the side that images must have at least; None where only a trial tells."""
    headline = f"images of {size[0]} x {size[1]} are too small for {model}"
    if smallest is not None:
        headline = f"{model} takes images of {smallest} x {smallest} or more, not {size[0]} x {size[1]}"
    return _wrong_size(headline, size, place, usual)


def _wrong_size(headline: str, size: tuple[int, int], place: Span, better: int, more: str = "") -> Diagnostic:
    """`better` is the size for the transform that resizes; `more` is another way to fix it."""
    resized = re.sub(rf"\b{size[0]}\b", str(better), place.text)
    fix = Fix(f"add `resize({better})` to the transforms{more}")
    if resized != place.text:
        fix = write(place, resized, after=more)
    return error("input-size", headline, (place, f"{size[0]} x {size[1]} from here on"), fix=fix)


def read_otherwise(data: Invocation, task: str, advice: str) -> Diagnostic:
    headline = f"`{data.card.bare_name}` returns raw annotations for {task}, which no model takes"
    return error("wrong-task", headline, (data, "raw annotations"), fix=f"let Leaven read the files: {advice}")


def other_task(data: Invocation, asked: Setting, offered: str, wanted: str, argument: str | None) -> Diagnostic:
    """`argument` is the one by which the data can be asked for the task, if there is any."""
    name = data.card.bare_name
    headline = f"`{name}` has labels for {offered}, but the recipe asks for {wanted}"
    fix = f'name the columns: `{name}(…, {argument}="…")`' if argument else "remove `task=`"
    return error("wrong-task", headline, (asked, "another task"), fix=fix)
