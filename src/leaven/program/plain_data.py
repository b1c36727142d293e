"""The lines that build the data of a standalone program, and the kind of splits that it has."""

from dataclasses import replace

from leaven.plan.plan import NumberOutputs, Plan
from leaven.plan.values import Argument, Call
from leaven.program.code import WIDTH, Code, Item, call, flat, listing, statement
from leaven.program.data import transforms
from leaven.program.definitions import plain_definition
from leaven.program.plain_values import PlainValues, skips
from leaven.program.values import cite_call

DIGITS = "leaven.runtime.digits"
_TABLE, _IMAGE_FOLDER = "leaven.runtime.table", "leaven.runtime.image_folder"
# transforms of torchvision that compute every pixel by itself, or on Pillow's images
_BY_PIXEL = {"RGB", "Resize", "CenterCrop", "ToImage", "ToDtype", "Normalize", "Grayscale", "Pad"}
_LAYOUT = ("separator", "header", "columns", "quote", "encoding")  # of tables in text
_OF_THE_KIND = ("sampler", "on_bad_file", "samples")  # settings that the kind of splits has
_FEWEST = 5  # percent for training, with which no class of the digits runs out of samples


def is_readable(plan: Plan) -> bool:
    """Whether the room `plain` has what reads the data."""
    source = plan.data.source
    return plain_definition(_rows_of(plan.data.table) if source.target == _TABLE else source.name) is not None


def data_lines(plan: Plan, values: PlainValues) -> tuple[list[str], list[str]]:
    """The lines that define the kind of splits, where it is of several, and those that build the data."""
    data, (kind, defined) = plan.data, _kind(plan, values)
    names, lines = transforms(data, values)
    lines += _source(plan, values)
    lines += _inputs(plan, values)
    lines += statement("split = ", _split(plan, values), cite_call(data.split))
    if not plan.task.has_one_class and not plan.task.moves_targets:
        is_number = isinstance(plan.task.predicts, NumberOutputs)
        told = "numbers are standardised; scores are in their own units" if is_number else ""
        lines += statement("samples = ", call(values.plain("samples", "fitted"), "samples", "split"), told)
    items, comment = values.cited_items([each for each in data.loading if each.name not in _OF_THE_KIND])
    if _has_workers_by_default(plan):
        values.imports.add("import os")
        items.append(Item("min(4, os.cpu_count() or 1)", "workers="))
    if comment or len(items) > 2 or any(item.comment for item in items):
        lines += statement("options = ", call("dict", *items), comment)
        items = [Item("options", "**")]
    transform = names[0]
    if len(set(names)) > 1:
        lines += statement("transforms = ", call("dict", train=names[0], val=names[1], test=names[1]))
        transform = "transforms[name]"
    made = flat(call(kind, "name", "samples", "indices", transform, *items))
    lines += _comprehension("splits = ", f"name: {made}", "for name, indices in split.items()")
    data_of = call(values.plain("batches", "Data"), "samples.classes", Item("splits", "**"))
    return defined, [*lines, *statement("data = ", data_of)]


def _comprehension(prefix: str, entry: str, loop: str) -> list[str]:
    """A dict comprehension, in as many lines as a formatter gives it."""
    line, inner = f"    {prefix}{{{entry} {loop}}}", f"        {entry} {loop}"
    if len(line) <= WIDTH:
        return [line]
    return [f"    {prefix}{{", *([inner] if len(inner) <= WIDTH else [f"        {entry}", f"        {loop}"]), "    }"]


def _inputs(plan: Plan, values: PlainValues) -> list[str]:
    """The lines that prepare all inputs before they are split."""
    if plan.data.eval.is_tokenizing:
        kind = values.plain("texts", "ReadableTexts" if skips(plan) else "EncodedTexts")
        made, why = call(kind, "samples.inputs", "tokenize"), "each text is tokenized once"
    elif skips(plan):
        made, why = call(values.plain("batches", "Readable"), "samples.inputs"), ""
    else:
        return []
    values.imports.add("from dataclasses import replace")
    return statement("samples = ", call("replace", "samples", inputs=made), why)


# -- the source


def _source(plan: Plan, values: PlainValues) -> list[str]:
    source, task = plan.data.source, plan.task
    target = source.argument("target")
    if source.target not in (_TABLE, _IMAGE_FOLDER) or target is None:
        return statement("samples = ", _other(plan, values), cite_call(source))
    inputs = "list" if source.argument("text") is not None else values.plain("samples", "ImageFiles")
    if task.has_one_class:
        column, classes = _label(target, values)
        cells = _cells(plan, values, Item(listing(column), "labels="))
        made = call(values.plain("tables", "labelled"), cells, inputs, *classes)
        return statement("samples = ", made, cite_call(source))
    arguments = target.value.arguments if isinstance(target.value, Call) else ()
    has_several_columns = any(isinstance(each.value, tuple) and len(each.value) > 1 for each in arguments)
    is_list = task.name == "multilabel" and isinstance(target.value, Call) and not has_several_columns
    missing = [Item("[None]", "missing=")] if is_list else []  # no label is a list of labels, too
    cells = _cells(plan, values, Item("reader.columns", "labels="), *missing)
    made = call(values.plain("samples", "read_targets"), cells, "reader", inputs)
    return statement("reader = ", values.value(target.value)) + statement("samples = ", made, cite_call(source))


def _cells(plan: Plan, values: PlainValues, *labels: Item) -> Code:
    """The call that reads inputs and labels from tables."""
    source = plan.data.source
    arguments = [each for each in source.arguments if each.name not in (*_LAYOUT, "target", "on_bad_file")]
    items = [*values.items(arguments), *labels]
    if source.target == _IMAGE_FOLDER:
        return call(values.plain("tables", "folder_cells"), *items)
    first = next((at for at, each in enumerate(arguments) if each.name), len(arguments))
    items.insert(first, Item(_rows(plan, values)))
    is_text = source.argument("text") is not None
    return call(values.plain("texts", "text_cells") if is_text else values.plain("tables", "image_cells"), *items)


def _rows(plan: Plan, values: PlainValues) -> Code:
    """The function that reads the rows of a table."""
    layout = [each for each in plan.data.source.arguments if each.name in _LAYOUT]
    if not layout:
        return values.plain("tables", _rows_of(plan.data.table))
    return values.partial(values.plain("tables", "laid_out_rows"), values.items(layout))


def _rows_of(form: str) -> str:
    """The name of the function that reads the rows of tables in a format."""
    return "csv_rows" if form == "tsv" else f"{form}_rows"


def _label(target: Argument, values: PlainValues) -> tuple[Code, list[Item]]:
    """The column with the classes, and the argument with their names where the recipe gives them."""
    label = target.value
    if not isinstance(label, Call):
        return values.value(label), []
    given = {each.name or "column": each for each in label.arguments}
    column = values.value(given["column"].value) if "column" in given else '"label"'
    known = given.get("class_names")
    return column, [Item(values.value(known.value), "classes=")] if known is not None else []


def _other(plan: Plan, values: PlainValues) -> Code:
    source = plan.data.source
    if source.name in ("image_folder", "text_folder"):
        kept = tuple(each for each in source.arguments if each.name != "on_bad_file")
        return values.call(replace(source, arguments=kept))
    if plan.data.is_user and not plan.task.has_one_class:
        return call(values.plain("python_datasets", "user_targets"), *values.items(source.arguments))
    return values.call(source)


def _split(plan: Plan, values: PlainValues) -> Code:
    shares = [each for each in plan.data.split.arguments if each.name != "resplit"]
    if is_simple_split(plan):
        name, shares = "split_samples", [each for each in shares if each.name != "train"]
    elif plan.data.source.target == DIGITS:
        name = "split_by_shares"
    else:
        name = "split_as_predefined" if plan.data.split.argument("resplit") is None else "split_anew"
    return call(values.plain("splits", name), "samples", *values.items(shares))


def is_simple_split(plan: Plan) -> bool:
    """Whether all of the digits are split by percentages, so that no split is empty."""
    shares = [plan.data.split.argument(name) for name in ("train", "val", "test")]
    amounts = [each.value for each in shares if each is not None and isinstance(each.value, int | float)]
    if plan.data.source.target != DIGITS or len(amounts) < len(shares):
        return False
    return sum(amounts) == 100 and amounts[0] >= _FEWEST and min(amounts) > 0


# -- the kind of splits


def _kind(plan: Plan, values: PlainValues) -> tuple[str, list[str]]:
    """The class of the splits, and the lines that define it if it is several."""
    is_text = plan.data.eval.is_tokenizing
    calls = [each for part in (plan.data.train, plan.data.eval) for each in part.calls]
    has_users_code = plan.data.is_user or any(not isinstance(each, Call) or each.is_user for each in calls)
    is_by_pixel = all(isinstance(each, Call) and each.name in _BY_PIXEL for each in calls)
    is_seeded = not is_text and (has_users_code or not is_by_pixel)
    loading = _loading(plan)
    is_balanced = loading.get("sampler") == "balanced"
    workers = loading.get("workers")
    has_workers = _has_workers_by_default(plan) or (isinstance(workers, int) and workers > 0)
    kinds = {
        "SingleThreadSplit": is_seeded and not has_workers,
        "SeededSplit": is_seeded,
        "SkippingSplit": skips(plan),
        "UserSplit": has_users_code or plan.data.source.name == "torchvision_dataset",
        "BalancedSplit": is_balanced and not is_text,
    }
    found = [("batches", name) for name, is_so in kinds.items() if is_so]
    if plan.task.moves_targets:
        found.append(("masks", "MaskSplit"))
    if is_text:
        found.append(("texts", "BalancedTextSplit" if is_balanced else "TextSplit"))
    return values.combined(found or [("batches", "Split")], "RecipeSplit")


def _loading(plan: Plan) -> dict[str, object]:
    return {each.name: each.value for each in plan.data.loading}


def _has_workers_by_default(plan: Plan) -> bool:
    """Whether images are loaded in processes of their own though the recipe does not say so."""
    is_in_memory = plan.data.source.target == DIGITS or plan.data.eval.is_tokenizing
    return "workers" not in _loading(plan) and not is_in_memory
