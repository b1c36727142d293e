"""Values of a plan as Python expressions, and the lines of the recipe that they come from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from leaven.plan.plan import Override, Plan
from leaven.plan.values import (
    Argument,
    ArgValue,
    Because,
    Bound,
    Calculation,
    Call,
    Entries,
    Negative,
    Reference,
    Value,
    Variable,
    lines_of,
)
from leaven.program.code import Code, Item, call, flat, joined, listing, mapping, number, text
from leaven.program.imports import Imports
from leaven.program.names import Names, is_parameter


class Values:
    """Writes values, and remembers which `arg`s of the recipe and which imports they need."""

    def __init__(self, imports: Imports, names: Names, plan: Plan) -> None:
        self.imports = imports
        self.names = names
        self.plan = plan
        self.outputs = plan.task.outputs  # what the program calls the number of outputs
        self.used_args: set[str] = set()
        self._task = plan.task.name
        self._names: set[str] = set()
        self._in_place: Mapping[str, str] = {}
        self._explained: set[str] = set()
        self._is_draft = False

    def once(self, explanation: str) -> str:
        """A comment where the program first needs it, and none after that."""
        if self._is_draft or explanation in self._explained:
            return ""
        self._explained.add(explanation)
        return explanation

    @property
    def saves(self) -> str:
        """The checkpoints of the loop over epochs, in words."""
        often = any(self.plan.checkpoint(name) is not None for name in ("epochs", "steps", "minutes"))
        return f"saves {'checkpoints, as `checkpoint=` says' if often else 'a checkpoint after each epoch'}"

    @property
    def keeps(self) -> str:
        """The steps at the end of an epoch, in words."""
        keep = self.plan.checkpoint("keep")
        kept = {"last": "", "all": ", keeps the weights"}
        return f"logs{kept.get(str(keep.value) if keep is not None else '', ', keeps the best weights')}"

    @contextmanager
    def unexplained(self) -> Iterator[None]:
        """Lines without explanations, to be compared with others."""
        self._is_draft = True
        yield
        self._is_draft = False

    def runtime(self, name: str) -> str:
        """A function or class of Leaven's runtime."""
        return self.imports.use(f"leaven.runtime.{name}")

    def task(self, name: str) -> str:
        """A function or class of the recipe's task."""
        return self.imports.use(f"leaven.tasks.{self._task}.{name}")

    # -- what the runtime does

    def backward(self, loss: str, **options: str) -> Code:
        """The call that computes the gradients of a loss."""
        return call("phase.backward", loss, **options)

    def log(self, *, has_names: bool) -> str:
        """The statement that remembers the loss of a batch; a model may give its losses by name."""
        return "phase.log(loss, losses)" if has_names else "phase.log(loss)"

    def trainable(self) -> Code:
        """The parameters that the optimizer gets."""
        return call(self.runtime("trainable"), "model")

    def clip(self, max_norm: Code) -> Code:
        """The call that scales the gradients down to a norm."""
        return call("phase.clip_gradients", "optimizer", max_norm=max_norm)

    def packaged(self, package: str) -> Code:
        """The weights in an installed package, as they are given to what loads them."""
        return call(self.runtime("packaged_weights"), text(package))

    def evaluation(
        self, model: str, split: str, criterion: str = "", own: Override | None = None, run: str = "run"
    ) -> Code:
        """The call that measures a model; with a step of the user's, where there is one."""
        more = [criterion] if criterion else []
        more += [f"step={self.names.user(own.function)}"] if own is not None else []
        return call(self.task("evaluate"), run, model, split, "metrics", *more)

    # -- values

    @contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Collects the names of a function's scope (`args`, `classes`, …) that the values use."""
        self._names = set()
        yield self._names

    @contextmanager
    def in_place(self, known: Mapping[str, str]) -> Iterator[None]:
        """Writes the code of these names where they are used."""
        self._in_place = known
        yield
        self._in_place = {}

    def name(self, name: str) -> str:
        self._names.add(name)
        return self._in_place.get(name, name)

    def value(self, value: Value) -> Code:
        match value:
            case str():
                return text(value)
            case float():
                return number(value)
            case tuple():
                return listing(*(self.value(each) for each in value))
            case Entries(items):
                return mapping({key: self.value(each) for key, each in items})
            case ArgValue(name):
                self.used_args.add(name)
                return f"{self.name('args')}.{self.names.arg(name)}"
            case Variable("outputs"):
                return self.name(self.outputs)
            case Variable(name):
                return self.name(name)
            case Calculation(operator, left, right):
                return f"{self.operand(left)} {operator} {self.operand(right)}"
            case Negative(inner):
                return f"-{self.operand(inner)}"
            case Reference(target, member):
                name = self.names.user(target) if value.is_user else self.imports.use(target)
                return f"{name}.{member}" if member else name
            case Call():
                return self.call(value)
            case Bound(function):
                return self.partial(self.target(function), self.items(function.arguments))
        return repr(value)

    def operand(self, value: Value) -> str:
        """A value as part of a larger calculation."""
        written = flat(self.value(value))
        return f"({written})" if isinstance(value, Calculation) else written

    # -- calls

    def call(self, made: Call, *first: Code, **more: Code) -> Code:
        return call(self.target(made), *first, *self.items(made.arguments), **more)

    def cited_call(self, made: Call) -> Code:
        """A call whose arguments cite their lines, where they are others than its own."""
        cited = [cite(*each.because) for each in made.arguments]
        items = zip(self.items(made.arguments), cited, strict=True)
        own = cite_call(made)
        return call(self.target(made), *(replace(item, comment=at) if at != own else item for item, at in items))

    def target(self, made: Call) -> str:
        if made.is_user:
            return self.names.user(made.target)
        return self.imports.use(made.target)

    def items(self, arguments: Iterable[Argument]) -> list[Item]:
        found = []
        for name, value in ((each.name, self.value(each.value)) for each in arguments):
            is_odd = bool(name) and not is_parameter(name)  # `class=3` for a user's `**settings`
            found.append(Item(mapping({name: value}), "**") if is_odd else Item(value, f"{name}=" if name else ""))
        return found

    def cited_items(self, arguments: Sequence[Argument], **explained: str) -> tuple[list[Item], str]:
        """Arguments with where each comes from; what would be said of one alone is the comment of the whole call."""
        comments = [joined(cite(*each.because), explained.get(each.name, "")) for each in arguments]
        items = self.items(arguments)
        if len(set(filter(None, comments))) <= 1:
            return items, "".join(set(comments))
        return [replace(item, comment=comment) for item, comment in zip(items, comments, strict=True)], ""

    def partial(self, function: str, arguments: Sequence[Item]) -> Code:
        """A function that the program calls later, with some of its arguments."""
        if not arguments:
            return function
        self.imports.add("from functools import partial")
        return call("partial", function, *arguments)


def cite(*reasons: Because) -> str:
    """Where a choice comes from: `lines 5, 7`; nothing for a default."""
    here = lines_of(reasons)
    others = dict.fromkeys(each.text for each in reasons if each.line is None and not each.is_default)
    cited = [f"line{'s' * (len(here) > 1)} {', '.join(map(str, here))}"] if here else []
    return "; ".join([*cited, *others])


def cite_all(choices: Iterable[Argument | Call]) -> str:
    return cite(*(reason for each in choices for reason in each.because))


def cite_or_explain(*reasons: Because) -> str:
    """Where a choice comes from; the reason for a default."""
    return cite(*reasons) or "; ".join(dict.fromkeys(each.text for each in reasons))


def cite_call(value: Call | Bound) -> str:
    return cite(*(value.call if isinstance(value, Bound) else value).because)
