"""The traits of a plan: what a standalone program must be able to do.

Each is a claim that is true of the plan or not; the marks in `runtime/plain` name them.
"""

from collections.abc import Iterator

from leaven.plan.plan import BuildModel, FileWeights, NumberOutputs, Plan, StarterWeights, TrainPhase, UseTechnique
from leaven.plan.values import Argument, Call, Value

DIGITS = "leaven.runtime.digits"
# transforms of torchvision that compute every pixel by itself, or on Pillow's images
_BY_PIXEL = {"RGB", "Resize", "CenterCrop", "ToImage", "ToDtype", "Normalize", "Grayscale", "Pad"}
_STATE_DICTS = (".pth", ".pt", ".th", ".bin", ".safetensors")
_FEWEST = 5  # percent for training, with which no class of the digits runs out of samples


def traits_of(plan: Plan) -> frozenset[str]:
    """The claims that are true of a plan."""
    found = {**_of_data(plan), **_of_model(plan), **_of_run(plan), **_of_phases(plan)}
    wanted = {name for use in techniques_of(plan) for name in use.wants}
    found["fabric"] = found["wrapped"] or "fabric" in wanted
    found["numbers"] = isinstance(plan.task.predicts, NumberOutputs)
    found["outputs"] = found["numbers"] or "outputs" in wanted or found["user_code"]
    found["targets"] = not plan.task.has_one_class
    found["masks"] = plan.task.moves_targets
    found["read_first"] = found["user_data"] or found["skip"]
    found["maybe_empty"] = found["shares"]
    found["by_position"] = (found["augmented"] or found["user_data"] or found["skip"]) and not found["texts"]
    special = ("early_stop", "averaged", "lower", "save_every", "keep_all", "loggers", "wrapped", "phase_of_best")
    names = {use.call.name for use in techniques_of(plan)}
    found["prunes"] = "Prune" in names
    found["simple_epochs"] = found["best"] and not names & {"Prune", "Soup"} and not any(map(found.get, special))
    return frozenset(name for name, is_true in found.items() if is_true)


def models_of(plan: Plan) -> Iterator[BuildModel]:
    """The model, and the teachers."""
    yield plan.model
    for use in techniques_of(plan):
        yield from (model for _, model in use.models if isinstance(model, BuildModel))


def techniques_of(plan: Plan) -> Iterator[UseTechnique]:
    return (use for phase in plan.phases for use in phase.techniques)


def checkpoint_setting(plan: Plan, name: str) -> Argument | None:
    """How often checkpoints are saved (`epochs`, `steps`, `minutes`) or which are kept (`keep`), if the recipe says."""
    checkpoint = plan.run.argument("checkpoint")
    policy = checkpoint.value if checkpoint is not None else None
    return policy.argument(name) if isinstance(policy, Call) else None


def keeps(plan: Plan) -> Value:
    """Which checkpoints are kept."""
    keep = checkpoint_setting(plan, "keep")
    return keep.value if keep is not None else "last_and_best"


# -- the data


_LAYOUT = ("header", "columns", "quote", "encoding")  # of tables that are not laid out as usual


def _of_data(plan: Plan) -> dict[str, bool]:
    loading = {each.name: each.value for each in plan.data.loading}
    calls = [each for part in (plan.data.train, plan.data.eval) for each in part.calls]
    is_users = plan.data.is_user or any(not isinstance(c, Call) or c.is_user for c in calls)
    known = [call.name for call in calls if isinstance(call, Call)]
    is_digits = plan.data.source.target == DIGITS
    is_text = plan.data.eval.is_tokenizing
    skips = loading.get("on_bad_file") == "skip"
    table = plan.data.table
    is_labelled = plan.data.source.name == "image_folder" and plan.data.source.argument("target") is not None
    classes = plan.data.source.argument("classes")
    reader = plan.data.source.argument("target")
    label = reader.value if reader is not None else None
    return {
        "class_names": isinstance(label, Call) and label.argument("class_names") is not None,
        "listed_classes": classes is not None and isinstance(classes.value, tuple),
        "texts": is_text,
        "bad_texts": is_text and skips,
        "labelled_folder": is_labelled,
        "csv": table not in ("jsonl", "parquet"),
        "layout": any(plan.data.source.argument(name) is not None for name in _LAYOUT),
        "ending": plan.data.source.argument("ending") is not None,
        "jsonl": table == "jsonl" or is_labelled,
        "parquet": table == "parquet" or is_labelled,
        "user_data": is_users,
        "augmented": not set(known) <= _BY_PIXEL and not is_users and not is_text,
        "one_thread": (skips or is_users or not set(known) <= _BY_PIXEL) and not is_text,
        "workers": not (is_digits or is_text) or "workers" in loading,
        "balanced": loading.get("sampler") == "balanced",
        "skip": skips,
        "shares": not _is_simple_split(plan),
        "predefined": not is_digits,
        "resplit": plan.data.split.argument("resplit") is not None,
    }


def _is_simple_split(plan: Plan) -> bool:
    """Whether all of the digits are split by percentages."""
    shares = [plan.data.split.argument(name) for name in ("train", "val", "test")]
    amounts = [each.value for each in shares if each is not None and isinstance(each.value, int | float)]
    if plan.data.source.target != DIGITS or len(amounts) < len(shares):
        return False
    return sum(amounts) == 100 and amounts[0] >= _FEWEST and min(amounts) > 0


# -- the model and the run


def _of_model(plan: Plan) -> dict[str, bool]:
    weights = [model.weights for model in models_of(plan)]
    starters = [each for each in weights if isinstance(each, StarterWeights)]
    files = [each for each in weights if isinstance(each, FileWeights)]
    return {
        "decoder": any(model.by == "timm" for model in models_of(plan)),
        "starters": bool(starters),
        "only_starters": not files,
        "plain_files": not starters and all(isinstance(f.file, str) and f.file.endswith(_STATE_DICTS) for f in files),
    }


def _of_run(plan: Plan) -> dict[str, bool]:
    has_stop = any(phase.early_stop is not None for phase in plan.phases)
    lower = {"loss", *(metric.name for metric in plan.metrics if metric.lower_is_better)}
    watched = [plan.monitor, *(phase.early_stop.score for phase in plan.phases if phase.early_stop is not None)]
    phase_precision = any(phase.precision is not None for phase in plan.phases)
    is_compiled = any(phase.compile is not None for phase in plan.phases)
    return {
        "user_code": bool(plan.user_modules),
        "wrapped": plan.run.argument("precision") is not None or phase_precision or is_compiled,
        "phase_precision": phase_precision,
        "compile": is_compiled,
        "accumulate": any(phase.accumulate is not None for phase in plan.phases),
        "clip": any(phase.clip is not None for phase in plan.phases),
        "loggers": plan.run.argument("loggers") is not None,
        "threads": plan.run.argument("threads") is not None,
        "lower": any(score.rpartition(".")[2] in lower for score in watched),
        "save_every": checkpoint_setting(plan, "epochs") is not None,
        "keep_all": keeps(plan) == "all",
        "best": keeps(plan) != "last" or has_stop,
    }


# -- phases


def _of_phases(plan: Plan) -> dict[str, bool]:
    phases = plan.phases
    stops = [phase.early_stop for phase in phases if phase.early_stop is not None]
    depends = any(map(_needs_weights, phases[1:])) or any(phase.early_stop is not None for phase in phases[:-1])
    freezes = [phase.freeze for phase in phases if phase.freeze is not None]
    optimizers = [phase.optimizer for phase in phases]
    return {
        "simple_cosine": all(map(_is_simple_cosine, phases)),
        "simple_freezing": not _freezes_in_parts(plan),
        "freeze_only": any(not freeze.is_all_but for freeze in freezes),
        "unfreezes": any(phase.unfreezes_all for phase in phases),
        "globs": any("*" in path for freeze in freezes for path in freeze.paths),
        "early_stop": bool(stops),
        "at_least": any(each.name == "at_least" for stop in stops for each in stop.settings),
        "averaged": any("model_for_eval" in use.hooks for use in techniques_of(plan)),
        "hands_over": len(phases) > 1 and (depends or bool(plan.user_modules)),
        "phase_of_best": not (phases[-1].trains and isinstance(phases[-1].epochs.value, int | float)),
        "keep_optimizer": any(phase.gives_optimizer or phase.takes_optimizer for phase in phases),
        "optimizer_generator": any(each.is_second_order or each.call.is_user for each in optimizers),
        "own_loss": any(phase.has_own_loss for phase in phases),
        "eval_step": any(phase.override("eval_step") is not None for phase in phases),
    }


def _needs_weights(phase: TrainPhase) -> bool:
    """Whether what a phase prepares depends on the weights that it begins with."""
    return bool(phase.steps) or phase.is_remembered or phase.takes_optimizer or not phase.trains


def _is_simple_cosine(phase: TrainPhase) -> bool:
    """Whether the schedule is another one than cosine, or falls to zero after a warm-up over a share of the steps."""
    schedule = phase.schedule.call
    warmup = schedule.argument("warmup")
    is_share = warmup is None or isinstance(warmup.value, float)
    return schedule.target != "leaven.runtime.cosine" or (is_share and schedule.argument("end") is None)


def _freezes_in_parts(plan: Plan) -> bool:
    """Whether freezing must know about adapters, masks, layers that are unfrozen later, or norms that are not."""
    freezes = [phase.freeze for phase in plan.phases if phase.freeze is not None]
    is_special = any(freeze.norms != "frozen" or freeze.dropout != "off" for freeze in freezes)
    changes = any(use.is_adapter or use.call.name in ("Prune", "LayerDecay") for use in techniques_of(plan))
    return is_special or changes or any(phase.unfreeze_later for phase in plan.phases)
