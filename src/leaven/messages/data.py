"""Reports about data that does not fit what a recipe asks of it."""

from leaven.catalog.values import Invocation, Setting
from leaven.language.diagnostics import Diagnostic, error


def read_otherwise(data: Invocation, task: str, advice: str) -> Diagnostic:
    headline = f"`{data.card.bare_name}` returns raw annotations for {task}, which no model takes"
    return error("wrong-task", headline, (data, "raw annotations"), fix=f"let Leaven read the files: {advice}")


def other_task(data: Invocation, asked: Setting, offered: str, wanted: str, argument: str | None) -> Diagnostic:
    """`argument` is the one by which the data can be asked for the task, if there is any."""
    name = data.card.bare_name
    headline = f"`{name}` has labels for {offered}, but the recipe asks for {wanted}"
    fix = f'name the columns: `{name}(…, {argument}="…")`' if argument else "remove `task=`"
    return error("wrong-task", headline, (asked, "another task"), fix=fix)
