"""The graph of a model, and the part of it that a frozen model computes anew in every epoch for nothing.

Modules are kept whole where nothing inside of them needs to be told apart: those without modules that have parameters,
and those that torch.fx can't trace. A graph runs the model's own modules, and the operations of its own forward pass,
so its outputs are the model's, bit for bit.
"""

import inspect
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from leaven.runtime.seeding import draws

_OF_THE_MODE = "training"  # what code asks that does something else in training
_RANDOM = {  # functions and methods that draw random numbers
    *("bernoulli", "bernoulli_", "exponential_", "gumbel_softmax", "multinomial", "normal", "normal_", "rand"),
    *("rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "randperm", "uniform_"),
}
_DROPOUT = {  # the same, unless they are told that this is not training
    *("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout", "rrelu"),
}


_DROPOUT_PLACE = 4  # of `dropout_p` among the arguments of scaled_dot_product_attention


class NotTraceable(Exception):
    """Why the graph of a model can't be found."""


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # what is computed from a buffer is no constant: it may change in training

    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        if isinstance(module, nn.MultiheadAttention):  # it branches on its inputs
            return True
        return not any(next(child.parameters(), None) is not None for child in module.children())

    def call_module(self, module: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """What can't be traced becomes one node, and what was traced of it is forgotten."""
        known, stack, scope = len(self.graph.nodes), self.module_stack.copy(), vars(self.scope).copy()
        try:
            return super().call_module(module, forward, args, kwargs)
        except Exception:
            for node in reversed(list(self.graph.nodes)[known:]):
                self.graph.erase_node(node)
            self.module_stack = stack
            vars(self.scope).update(scope)
            return self.create_proxy("call_module", self.path_of_module(module), args, kwargs)


def trace(model: nn.Module) -> tuple[fx.Graph, nn.Module]:
    """The graph of a model in the modes in which its modules are, and what has the constants of the graph.

    The modules of the model run, and what they do besides computing is done: it should be a copy (`looking.py`).
    """
    have_drawn, root = draws(), _with_own_attributes(model)
    try:
        graph = _Tracer().trace(root)
    except Exception as problem:
        said = str(problem).partition("\n")[0]
        raise NotTraceable(f"{type(model).__name__} can't be traced: {said}") from None
    if have_drawn():
        raise NotTraceable(f"{type(model).__name__} draws random numbers")
    if sum(map(_is_image, graph.nodes)) != 1:
        raise NotTraceable(f"{type(model).__name__} takes more than one input")
    return graph, root


def _with_own_attributes(model: nn.Module) -> nn.Module:
    """The model again, with the same modules: what is written to it is not written to the model."""
    root = object.__new__(type(model))
    root.__dict__.update(vars(model))
    return root


@dataclass(frozen=True)
class Cut:
    """Where the frozen part of a graph ends: the last nodes that are the same in every epoch for the same images.

    The parts can be made of the modules of any model with the same layers; `constants` has what else they need.
    """

    constants: nn.Module
    graph: fx.Graph
    fixed: frozenset[fx.Node]
    ends: tuple[fx.Node, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The ends as people know them: by module where it is the output of one."""
        return tuple(_name(node) for node in self.ends)

    def before(self, model: nn.Module) -> fx.GraphModule:
        """From the images to the outputs of the frozen part."""
        part = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in self.graph.nodes:
            if node in self.fixed and (node in self.ends or self.fixed.intersection(node.users)):
                copies[node] = part.node_copy(node, copies.__getitem__)
        part.output(tuple(copies[node] for node in self.ends))
        return over(model, part, self.constants)

    def after(self, model: nn.Module) -> fx.GraphModule:
        """From the outputs of the frozen part to those of the model."""
        part = fx.Graph()
        copies = {node: part.placeholder(f"stored_{number}") for number, node in enumerate(self.ends)}
        needed = {node for node in self.graph.nodes if node not in self.fixed}
        for node in reversed(self.graph.nodes):
            if node not in copies and needed.intersection(node.users):
                needed.add(node)
        for node in self.graph.nodes:
            if node in needed:
                copies[node] = part.node_copy(node, copies.__getitem__)
        return over(model, part, self.constants)


def over(model: nn.Module, graph: fx.Graph, other: nn.Module) -> fx.GraphModule:
    """A graph with the modules of a model. Constants that tracing has found are attributes of the `other` one."""
    root = _with_own_attributes(model)
    for node in graph.nodes:
        if node.op == "get_attr" and "." not in str(node.target) and not hasattr(root, str(node.target)):
            root.__dict__[str(node.target)] = getattr(other, str(node.target))
    return fx.GraphModule(root, graph)


def _is_image(node: fx.Node) -> bool:
    """Whether a node is the input of the model, not an argument with a default."""
    return node.op == "placeholder" and not node.args


def _from_images(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that depend on the images, and not on parameters alone."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if _is_image(node) or found.intersection(node.all_input_nodes):
            found.add(node)
    return found


def _name(node: fx.Node) -> str:
    if node.op == "call_module":
        return str(node.target)
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    within = stack[-1][0] if stack else ""
    return f"{within}, {node.name}" if within else node.name


def find_cut(model: nn.Module) -> Cut | None:
    """Where the frozen part of a model in training ends; None where it has none."""
    graph, constants = trace(model)
    fixed = _fixed_nodes(constants, graph)
    stored = fixed & _from_images(graph)
    ends = tuple(node for node in graph.nodes if node in stored and not fixed.issuperset(node.users))
    has_layers = any(_has_parameters(node, constants) for node in fixed)
    is_any = has_layers and any(node.op != "placeholder" for node in ends)
    return Cut(constants, graph, frozenset(fixed), ends) if is_any else None


def cut_again(cut: Cut, model: nn.Module) -> Cut | None:
    """The same cut in the graph of a model in other modes, such as evaluation; None where it looks different."""
    graph, constants = trace(model)
    alike: dict[fx.Node, fx.Node] = {}
    others = iter(graph.nodes)
    for node in cut.graph.nodes:
        if node not in cut.fixed:
            continue
        found = next((other for other in others if _is_alike(node, other, alike)), None)
        if found is None:
            return None
        alike[node] = found
    return Cut(constants, graph, frozenset(alike.values()), tuple(alike[node] for node in cut.ends))


def _is_alike(node: fx.Node, other: fx.Node, alike: Mapping[fx.Node, fx.Node]) -> bool:
    if (node.op, node.target) != (other.op, other.target):
        return False
    given = fx.map_arg((node.args, node.kwargs), lambda each: alike.get(each, each))
    return bool(given == (other.args, other.kwargs))


def _has_parameters(node: fx.Node, model: nn.Module) -> bool:
    if node.op == "get_attr":
        return isinstance(operator.attrgetter(str(node.target))(model), nn.Parameter)
    return node.op == "call_module" and next(model.get_submodule(str(node.target)).parameters(), None) is not None


# -- what is the same in every epoch


def _fixed_nodes(model: nn.Module, graph: fx.Graph) -> set[fx.Node]:
    """The nodes that depend on frozen parameters alone, draw no random numbers, and have no statistics that change."""
    fixed: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "output" and fixed.issuperset(node.all_input_nodes) and _is_fixed(node, model):
            fixed.add(node)
    return fixed


def _is_fixed(node: fx.Node, model: nn.Module) -> bool:
    """Whether a node adds nothing that changes to what it is given."""
    match node.op:
        case "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            module = model.get_submodule(owner)
            is_frozen = not getattr(module, name).requires_grad
            return is_frozen and not (name in module._buffers and module.training)
        case "call_module":
            return _is_constant(model.get_submodule(str(node.target)))
        case "call_method":
            return node.target not in _RANDOM
        case "call_function":
            return not _changes(node)
    return node.op == "placeholder"


def _is_constant(module: nn.Module) -> bool:
    """Whether a module gives the same outputs for the same inputs in every epoch."""
    if any(parameter.requires_grad for parameter in module.parameters()):
        return False
    return not any(inner.training and _depends_on_mode(inner) for inner in module.modules())


def _depends_on_mode(module: nn.Module) -> bool:
    """Whether a module in training draws random numbers or updates its buffers, as far as its code shows."""
    if next(module.buffers(recurse=False), None) is not None:
        return True
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return any(_OF_THE_MODE in names or names & (_RANDOM | _DROPOUT) for names in _names_in(type(module)))


def _names_in(class_: type) -> Iterator[frozenset[str]]:
    """The names that each method of a class uses, without those of `nn.Module` itself."""
    for owner in class_.__mro__[: class_.__mro__.index(nn.Module)]:
        for member in vars(owner).values():
            if inspect.isfunction(member):
                yield frozenset(member.__code__.co_names)


def _changes(node: fx.Node) -> bool:
    """Whether a function draws random numbers, or treats a sample by what else is in its batch."""
    name = getattr(node.target, "__name__", "")
    if name in _DROPOUT or name == "batch_norm":
        return _given(node, "training", default=True) is not False
    if name == "scaled_dot_product_attention":
        return _given(node, "dropout_p", default=0.0 if len(node.args) <= _DROPOUT_PLACE else None) != 0
    return name in _RANDOM


def _given(node: fx.Node, name: str, default: object) -> object:
    """What an argument of a function is; the default is for functions of C, which do not tell their parameters."""
    assert callable(node.target)
    try:
        given = inspect.signature(node.target).bind(*node.args, **node.kwargs)
    except (ValueError, TypeError):
        return node.kwargs.get(name, default)
    given.apply_defaults()
    return given.arguments[name]
