"""The data against the model: classes, channels and size of the images that the transforms give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leaven.catalog.values import FilePath, Invocation, Written
from leaven.formats.class_names import Mismatch, match, named_outputs, published_classes
from leaven.formats.trained import bundle_facts
from leaven.language.diagnostics import Diagnostic
from leaven.language.record import Record
from leaven.language.source import Span
from leaven.messages import inputs as messages
from leaven.messages.places import span_of
from leaven.recipe.data import DataFacts, sizes_on_disk
from leaven.recipe.default_transforms import USUAL_SIZE, height_and_width
from leaven.recipe.model_facts import ModelFacts, takes_size
from leaven.recipe.model_statement import kept_classes
from leaven.recipe.reader import Draft
from leaven.recipe.recipe import Data, KeepHead, Transforms

_NEW_HEAD = "remove `head=keep` to get a new head for the classes of the data"
LISTED = 5  # names in a report
_UNKNOWN_SIZE = ("pad", "five_crop", "ten_crop", "random_resize", "random_zoom_out", "scale_jitter", "lambda")


class Image(Record):
    """Facts about an image between two transforms: `shorter` is the shorter side where shapes vary."""

    channels: int | None
    size: tuple[int, int] | None = None
    shorter: int | None = None
    varies: bool = False


def check(draft: Draft) -> Iterator[Diagnostic]:
    yield from _classes(draft)
    task = draft.data_facts.task
    if task.is_for_texts:
        yield from _text(draft)
    elif draft.data.tokenize is not None:
        yield messages.tokens_of_images(draft.data.tokenize, draft.data_facts.task.title)
    is_pipeline = isinstance(draft.model.source, tuple)
    if not task.is_for_images or task.traits.model_resizes or (is_pipeline and draft.data_facts.size):
        return
    reported: set[int] = set()
    for transforms in (draft.data.train, draft.data.eval):
        if transforms is None:
            continue
        image, places = _through(transforms, draft.data)
        if places["size"].start not in reported:
            image, example = _measured_on_disk(image, transforms, draft) if image.varies else (image, "")
            for report in _image(image, draft.model_facts, places, example):
                reported.add(places["size"].start)
                yield report


def _measured_on_disk(image: Image, transforms: Transforms, draft: Draft) -> tuple[Image, str]:
    """The images on disk after the transforms: of one shape, or an example of two that differ."""
    example_of: dict[tuple[int, int], str] = {}
    for size, file in sizes_on_disk(draft.data.source, draft.data_facts).items():
        after = _through(transforms, replace(draft.data, size=size))[0]
        if after.size is None:
            return image, ""
        example_of.setdefault(after.size, file)
    if len(example_of) == 1:
        return replace(image, size=next(iter(example_of)), varies=False), ""
    examples = [f"`{file}` becomes {height} x {width}" for (height, width), file in example_of.items()]
    return image, ", ".join(examples[:2])


def _text(draft: Draft) -> Iterator[Diagnostic]:
    """Texts: nothing is done to them but by the tokenizer, and not more than the model takes."""
    for name, transforms in (("train", draft.data.train), ("eval", draft.data.eval)):
        if transforms is not None:
            yield messages.transforms_of_texts(name, transforms.origin)
    tokenize, longest = draft.data.tokenize, draft.model_facts.longest
    wanted = tokenize.value("max_length") if tokenize is not None else None
    if tokenize is not None and isinstance(wanted, int) and longest is not None and wanted > longest:
        yield messages.too_long(draft.model_facts.name, longest, wanted, tokenize)


def _classes(draft: Draft) -> Iterator[Diagnostic]:
    """A kept head: each class of the data is one of its outputs. A file that is not a bundle does not tell its own."""
    model, facts, data = draft.model, draft.model_facts, draft.data
    if not isinstance(model.head, KeepHead) or data.outputs is None:
        return
    kept = facts.kept or span_of(model.origin)
    counted = draft.data_facts.task.counted(data.outputs)
    if model.traits.loads == "transformers" and model.pretrained:
        if problem := _unlike_labels(facts, draft.data_facts):
            yield messages.class_names(problem.fact, problem.help, kept, data.source.origin, counted)
        return
    if isinstance(model.weights, FilePath) and (fact := _unlike_bundle(model.weights, draft.data_facts.names)):
        yield messages.class_names(fact, _NEW_HEAD, kept, data.source.origin, counted)
        return
    if facts.classes is None:
        return
    published = kept_classes(model, data.task)
    if published is not None and draft.data_facts.names:
        mismatch = match(draft.data_facts.names, published_classes(published))
        if isinstance(mismatch, Mismatch):
            yield messages.class_names(mismatch.fact, mismatch.help, kept, data.source.origin, counted)
    elif facts.classes != data.outputs and (model.pretrained or facts.layers is None):
        yield messages.class_count(facts.name, facts.classes, counted, kept, data.source.origin)
    elif published is None and model.pretrained and data.task.has_one_class:
        fact = f"the class names of {facts.name} are unknown"
        yield messages.class_names(fact, _NEW_HEAD, kept, data.source.origin, counted)


def _unlike_labels(facts: ModelFacts, data: DataFacts) -> Mismatch | None:
    """The reason not to keep the head of a text model, whose outputs have names: with several labels at once,
    the data must have all of them, in its order."""
    labels, names = facts.labels, data.names
    kind = data.task.traits.target_kind if data.task.is_known else ""
    if labels is None:  # a run matches classes by name once it has the configuration
        fact = f"the class names of {facts.name} are known only when it is downloaded"
        return Mismatch(fact, _NEW_HEAD) if kind == "binary" else None
    if not labels:
        return Mismatch(f"{facts.name} has no trained head to keep", _NEW_HEAD)
    if kind == "class" and names:
        mismatch = match(names, named_outputs(labels))
        return mismatch if isinstance(mismatch, Mismatch) else None
    if kind == "binary" and names and tuple(names) != labels:
        told = f"the outputs of the model are {', '.join(labels[:LISTED])}, the labels {', '.join(names[:LISTED])}"
        return Mismatch(told, _NEW_HEAD)
    if kind == "number" and data.outputs != len(labels):
        return Mismatch(f"the head of {facts.name} has {len(labels)} outputs", _NEW_HEAD)
    return None


def _unlike_bundle(file: FilePath, names: Sequence[str]) -> str:
    """The first class of the data that is another one in a bundle; empty where all are the same."""
    bundle = bundle_facts(file.place) if names else None
    for at, (theirs, ours) in enumerate(zip(bundle.classes if bundle is not None else (), names, strict=False), 1):
        if theirs != ours:
            return f"output {at} of `{file.text}` is `{theirs}`, but class {at} of the data is `{ours}`"
    return ""


def size_of_images(data: Data) -> tuple[int, int] | None:
    """The height and width of the images that the model is evaluated on, where they are known."""
    return _through(data.eval, data)[0].size if data.eval is not None else None


def _through(transforms: Transforms, data: Data) -> tuple[Image, dict[str, Span]]:
    """An image after the transforms, and the places to blame for its channels and its size."""
    is_known = data.source.card.kind != "user"
    image = Image(data.channels, data.size, None, data.size is None and is_known)
    place = transforms.origin.span if isinstance(transforms.origin, Written) else span_of(data.source.origin)
    places = {"channels": place, "size": place}
    for transform in transforms.stages:
        after = _after(transform, image)
        if isinstance(transform.origin, Written):
            if after.channels != image.channels:
                places["channels"] = transform.origin.span
            if replace(after, channels=image.channels) != image:
                places["size"] = transform.origin.span
        image = after
    return image, places


def _after(transform: Invocation, image: Image) -> Image:
    name, size = transform.card.friendly, transform.value("size")
    values = [setting.value for setting in transform.settings if isinstance(setting.value, tuple)]
    inner = [item for items in values for item in items if isinstance(item, Invocation)]  # such as of `random_apply`
    if transform.card.kind == "user" or any(_after(stage, image) != image for stage in inner):
        return Image(None)
    if name == "rgb":
        return replace(image, channels=3)
    if name == "grayscale":
        channels = transform.value("num_output_channels", 1)
        return replace(image, channels=channels if isinstance(channels, int) else None)
    if name == "resize" and isinstance(size, int):
        if image.size is not None and transform.value("max_size") is None:
            return replace(image, size=_resized(image.size, size), varies=False)
        return replace(image, size=None, shorter=size, varies=True)
    if size is not None and ("crop" in name or name == "resize"):
        return replace(image, size=height_and_width(size), varies=False)
    return Image(image.channels) if name in _UNKNOWN_SIZE else image


def _resized(size: tuple[int, int], shorter: int) -> tuple[int, int]:
    """The height and width of an image whose shorter side is given another length, as torchvision rounds it."""
    height, width = size
    longer = int(shorter * max(size) / min(size))
    return (shorter, longer) if height <= width else (longer, shorter)


def _image(image: Image, facts: ModelFacts, places: Mapping[str, Span], example: str) -> Iterator[Diagnostic]:
    """The first reason why the model can't take such an image; `example` is one of two that differ in shape."""
    place, usual = places["size"], facts.size[0] if facts.size else USUAL_SIZE
    if image.channels and facts.channels and image.channels != facts.channels:
        has_in_chans = "in_chans" in facts.arguments
        yield messages.channels(facts.name, facts.channels, image.channels, places["channels"], has_in_chans)
    elif image.varies:
        yield messages.different_shapes(place, image.shorter or usual, image.shorter is not None, example)
    elif image.size is None:
        return
    elif facts.is_size_fixed and facts.size is not None and image.size != facts.size:
        yield messages.other_size(facts.name, facts.size, image.size, place, "img_size" in facts.arguments)
    elif min(image.size) < facts.smallest:
        better = facts.size[0] if facts.size else facts.smallest
        yield messages.too_small(facts.name, facts.smallest, image.size, place, better)
    elif not takes_size(facts, image.size):
        yield messages.too_small(facts.name, None, image.size, place, usual)
