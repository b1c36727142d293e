"""What a standalone program is written from: names of the room `plain` in place of those of the runtime."""

from collections.abc import Sequence

from leaven.plan.plan import (
    BuildModel,
    FileWeights,
    NumberOutputs,
    Override,
    Plan,
    StarterWeights,
    TrainPhase,
    UseTechnique,
)
from leaven.program.code import Code, Item, call, text
from leaven.program.imports import Imports, is_pythons
from leaven.program.names import Names
from leaven.program.values import Values

_LEFT_OUT = {"leaven.runtime.model_builder", "leaven.bundle.note_change"}  # they are for bundles
_STATE_FILES = (".pth", ".pt", ".th", ".bin", ".safetensors")
_PIP = {"PIL": "pillow", "sklearn": "scikit-learn", "torch_pruning": "torch-pruning"}


def models_of(plan: Plan) -> list[BuildModel]:
    """The model, and the teachers."""
    taught = [model for use in techniques_of(plan) for _, model in use.models]
    return [plan.model, *(model for model in taught if isinstance(model, BuildModel))]


def techniques_of(plan: Plan) -> list[UseTechnique]:
    return [use for phase in plan.phases for use in phase.techniques]


class PlainImports(Imports):
    """Imports of other libraries; what the program uses of Leaven is collected, to be copied into it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.targets: dict[str, None] = {}
        self._instead = {
            "leaven.runtime.load_weights": f"leaven.plain.model.{_loader(plan)}",
            "leaven.tasks.segmentation.fit_head": "leaven.tasks.segmentation.code.replace_classifiers",
        }

    def use(self, target: str) -> str:
        if target.partition(".")[0] != "leaven":
            return super().use(target)
        if target in _LEFT_OUT:
            return ""
        target = self._instead.get(target, target)
        self.targets.setdefault(target)
        return target.rpartition(".")[2]

    def packages(self) -> list[str]:
        """What must be installed, as pip calls it."""
        roots = sorted({line.split()[1].partition(".")[0] for line in self._lines})
        return [_PIP.get(root, root) for root in roots if not is_pythons(root)]


def _loader(plan: Plan) -> str:
    """The function that loads the weights of these models."""
    weights = [model.weights for model in models_of(plan)]
    files = [each.file for each in weights if isinstance(each, FileWeights)]
    if not files:
        return "load_packaged"
    is_simple = all(isinstance(file, str) and file.endswith(_STATE_FILES) for file in files)
    has_starters = any(isinstance(each, StarterWeights) for each in weights)
    return "load_state" if is_simple and not has_starters else "load_weights"


class PlainValues(Values):
    """Writes as torch does it what the normal program leaves to the runtime."""

    def __init__(self, imports: PlainImports, names: Names, plan: Plan) -> None:
        super().__init__(imports, names, plan)
        self.digits = ".6g" if isinstance(plan.task.predicts, NumberOutputs) else ".4f"  # of a score that is printed
        self.is_wrapped = False  # whether the phase that is written has model and optimizer from Fabric

    def plain(self, module: str, name: str) -> str:
        """A function or class of the room `plain`."""
        return self.imports.use(f"leaven.plain.{module}.{name}")

    def combined(self, kinds: Sequence[tuple[str, str]], name: str) -> tuple[str, list[str]]:
        """The class that is all of these, by their modules and names, and the lines that define it if there are
        several."""
        classes = [self.plain(module, kind) for module, kind in kinds]
        if len(classes) == 1:
            return classes[0], []
        return name, [f"class {name}({', '.join(classes)}):", f'    """The {name[6:].lower()}s of this recipe."""']

    def once(self, explanation: str) -> str:
        return ""  # what is called is in the program

    def backward(self, loss: str, **options: str) -> Code:
        if self.is_wrapped:
            return call("run.fabric.backward", loss, **options)
        return call(f"{loss if loss.isidentifier() else f'({loss})'}.backward", **options)

    def log(self, *, has_names: bool) -> str:
        return "losses.append(loss.detach())"

    def trainable(self) -> Code:
        if freezes_in_parts(self.plan):
            return super().trainable()
        return "[p for p in model.parameters() if p.requires_grad]"

    def clip(self, max_norm: Code) -> Code:
        if self.is_wrapped:
            return call("run.fabric.clip_gradients", "model", "optimizer", max_norm=max_norm)
        return super().clip(max_norm)

    def packaged(self, package: str) -> Code:
        return text(package) if _loader(self.plan) == "load_packaged" else super().packaged(package)

    def evaluation(
        self, model: str, split: str, criterion: str = "", own: Override | None = None, run: str = "run"
    ) -> Code:
        task, given = self.plan.task, [run, model, split, "metrics", *filter(None, [criterion])]
        if task.has_one_class and own is None and not skips(self.plan):
            return call(self.plain("scoring", "evaluate"), *given)
        named: dict[str, Code] = {"step": self.names.user(own.function)} if own is not None else {}
        if isinstance(task.predicts, NumberOutputs):
            named["is_exact"] = "True"
        return call(self.plain("scoring", "evaluate_by"), self._measured(), *given, **named)

    def _measured(self) -> Code:
        """What turns outputs and targets into what metrics compare."""
        task = self.plan.task
        if task.has_one_class:
            return self.imports.use("leaven.tasks.scoring.unchanged")
        measured = self.imports.use(f"leaven.tasks.{task.name}.code.measured")
        return measured if task.moves_targets else self.partial(measured, [Item("data.target", "target=")])


def freezes_in_parts(plan: Plan) -> bool:
    """Whether freezing must know about adapters, masks, layers that are unfrozen later, norms that are not frozen, or
    parameters that the user's code has frozen."""
    freezes = [phase.freeze for phase in plan.phases if phase.freeze is not None]
    is_special = any(freeze.norms != "frozen" or freeze.dropout != "off" for freeze in freezes)
    changes = any(use.is_adapter or use.call.name in ("Prune", "LayerDecay") for use in techniques_of(plan))
    return is_special or changes or bool(plan.user_modules) or any(phase.unfreeze_later for phase in plan.phases)


def skips(plan: Plan) -> bool:
    """Whether samples that can't be read are left out."""
    return any(each.name == "on_bad_file" and each.value == "skip" for each in plan.data.loading)


def precision_of(phase: TrainPhase, plan: Plan) -> Code | None:
    """The precision of a phase, where it is not 32 bits throughout; as Fabric calls it."""
    own = phase.precision or plan.run.argument("precision")
    return None if own is None else text(str(own.value))
