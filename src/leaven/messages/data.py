"""Reports about data that does not fit what a recipe asks of it."""

from leaven.catalog.values import Invocation, Setting
from leaven.language.diagnostics import Diagnostic, Spot, error
from leaven.messages.places import span_of


def read_otherwise(data: Invocation, task: str, advice: str) -> Diagnostic:
    return error(
        "wrong-task",
        f"`{data.card.bare_name}` gives annotations for {task} as they are in its files, which no model takes",
        Spot(span_of(data.origin), "raw annotations"),
        fix=f"let Leaven read the files: {advice}",
    )


def other_task(data: Invocation, asked: Setting, offered: str, wanted: str, argument: str | None) -> Diagnostic:
    """`argument` is the one by which the data can be asked for the task, if there is any."""
    name = data.card.bare_name
    return error(
        "wrong-task",
        f"`{name}` has labels for {offered}, but the recipe asks for {wanted}",
        Spot(span_of(asked.origin), "another task"),
        fix=f'name the columns: `{name}(…, {argument}="…")`' if argument else "remove `task=`",
    )
