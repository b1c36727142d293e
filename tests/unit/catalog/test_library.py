"""What the installed libraries offer, and an index that survives whatever happens to it."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from leaven.catalog import library, lookup, own, versions
from leaven.catalog.card import Card, Parameter
from leaven.catalog.library import Library
from leaven.files import sealed


def card(kind: str, name: str) -> Card:
    return library.installed().find(kind, name)[0]


def parameter(kind: str, card_name: str, name: str) -> Parameter:
    found = card(kind, card_name).parameter(name)
    assert found is not None
    return found


# -- what is found


def test_an_optimizer_has_its_real_arguments_and_not_the_ones_a_program_supplies() -> None:
    adamw = card("optimizer", "adamw")
    assert (adamw.name, adamw.target, adamw.source) == ("torch.AdamW", "torch.optim.AdamW", "torch")
    lr, betas = parameter("optimizer", "adamw", "lr"), parameter("optimizer", "adamw", "betas")
    assert (lr.type, lr.default, lr.required, lr.positional) == ("float", 1e-3, False, True)
    assert (betas.type, betas.default) == ("list", (0.9, 0.999))
    assert not parameter("optimizer", "adamw", "foreach").positional
    assert adamw.parameter("params") is None
    assert not adamw.open_ended
    assert adamw.summary.startswith("Implements AdamW algorithm")


def test_torch_comes_before_timm_for_optimizers_and_timm_before_torchvision_for_models() -> None:
    assert [found.name for found in library.installed().find("optimizer", "adamw")] == ["torch.AdamW", "timm.adamw"]
    assert [found.name for found in library.installed().find("model", "resnet18")] == [
        "timm.resnet18",
        "torchvision.resnet18",
    ]


@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        ("optimizer", "torch.RAdam", "torch.RAdam"),
        ("optimizer", "torch.radam", "torch.RAdam"),
        ("optimizer", "AdamW", "torch.AdamW"),
        ("optimizer", "torch.optim.SGD", "torch.SGD"),
        ("optimizer", "timm.adamw", "timm.adamw"),
        ("optimizer", "lamb", "timm.lamb"),
        ("model", "timm.convnext_tiny", "timm.convnext_tiny"),
        ("model", "torchvision.vgg16", "torchvision.vgg16"),
        ("model", "convnext_tiny.fb_in22k", "timm.convnext_tiny.fb_in22k"),
        ("model", "convnext_tiny_in22ft1k", "timm.convnext_tiny.fb_in22k_ft_in1k"),
        ("transform", "random_resized_crop", "torchvision.RandomResizedCrop"),
        ("transform", "horizontal_flip", "torchvision.RandomHorizontalFlip"),
        ("transform", "random_horizontal_flip", "torchvision.RandomHorizontalFlip"),
        ("transform", "rand_augment", "torchvision.RandAugment"),
        ("transform", "resize", "torchvision.Resize"),
        ("transform", "torchvision.transforms.v2.Resize", "torchvision.Resize"),
        ("loss", "cross_entropy", "torch.CrossEntropyLoss"),
        ("loss", "bce_with_logits", "torch.BCEWithLogitsLoss"),
        ("schedule", "step_lr", "torch.StepLR"),
        ("schedule", "cosine_annealing_lr", "torch.CosineAnnealingLR"),
        ("schedule", "reduce_lr_on_plateau", "torch.ReduceLROnPlateau"),
        ("data", "cifar10", "torchvision.CIFAR10"),
        ("data", "fashion_mnist", "torchvision.FashionMNIST"),
        ("data", "oxford_iiit_pet", "torchvision.OxfordIIITPet"),
        ("metric", "accuracy", "torchmetrics.Accuracy"),
        ("metric", "f1_score", "torchmetrics.F1Score"),
    ],
)
def test_a_name_means(kind: str, written: str, meant: str) -> None:
    assert card(kind, written).name == meant


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion_mnist", "mnist", "imagenet"])
def test_a_dataset_is_augmented_alike_by_either_name(name: str) -> None:
    leavens = own.read("data", name)
    assert leavens is not None
    librarys = card("data", f"torchvision.{name}")
    assert librarys.source == "torchvision"
    assert librarys.data.is_safe_to_augment == leavens.data.is_safe_to_augment


def test_names_that_are_equally_near_come_in_natural_order() -> None:
    names = [f"efficientnet_lite{number}" for number in (10, 4, 3, 2, 1, 0)]
    assert lookup.nearest("efficientnet_lite", names) == [f"efficientnet_lite{number}" for number in (0, 1, 2)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("optimizer", "adamv"),
        ("optimizer", "timm.AdaptiveNothing"),
        ("optimizer", "torchvision.adamw"),
        ("model", "adamw"),
        ("model", "resnet18.no_such_weights"),
        ("model", "starters.resnet18"),
        ("statement", "freeze"),
        ("loss", ""),
        ("loss", "torch."),
    ],
)
def test_a_name_of_another_kind_finds_nothing(kind: str, name: str) -> None:
    assert library.installed().find(kind, name) == []


def test_the_traits_of_transforms() -> None:
    crop = card("transform", "random_resized_crop")
    size = parameter("transform", "random_resized_crop", "size")
    assert (size.required, size.types) == (True, ("int", "list"))
    assert crop.target == "torchvision.transforms.v2.RandomResizedCrop"
    assert crop.transform.is_random
    assert not card("transform", "center_crop").transform.is_random
    interpolation = parameter("transform", "random_resized_crop", "interpolation")
    assert interpolation.default == "bilinear"
    assert "bicubic" in interpolation.choices


def test_random_may_be_left_out_only_where_nothing_else_has_the_name() -> None:
    assert card("transform", "grayscale").name == "torchvision.Grayscale"
    assert card("transform", "resize").name == "torchvision.Resize"
    assert "rotation" in library.installed().names("transform")


def test_the_traits_of_published_weights() -> None:
    for name in ("timm.resnet18", "torchvision.resnet18"):
        model = card("model", name).model
        assert model.input_size == (3, 224, 224)
        assert model.mean == (0.485, 0.456, 0.406)
        assert model.classes == 1000
        assert model.has_weights
        assert model.task == "image-classification"
        assert not model.has_fixed_input_size
    assert card("model", "torchvision.resnet18").model.resize == 256


def test_weights_of_a_tag_may_differ_from_the_default_ones() -> None:
    default, tagged = card("model", "resnet18").model, card("model", "resnet18.a3_in1k").model
    assert tagged.timm_name == "resnet18.a3_in1k"
    assert default.input_size != tagged.input_size == (3, 160, 160)
    assert (card("model", "convnext_tiny.fb_in22k").model.classes or 0) > 20_000


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "torchvision.vit_b_16"])
def test_a_vision_transformer_takes_one_size_only(name: str) -> None:
    assert card("model", name).model.has_fixed_input_size


def test_a_models_arguments_are_those_of_the_class_it_builds() -> None:
    resnet = card("model", "timm.resnet18")
    assert not resnet.open_ended
    assert {"in_chans", "drop_rate", "drop_path_rate"} <= {parameter.name for parameter in resnet.parameters}
    supplied = {"pretrained", "num_classes", "weights", "progress", "pretrained_cfg"}
    assert not supplied & {parameter.name for parameter in resnet.parameters}
    assert all(not parameter.positional for parameter in resnet.parameters)
    assert parameter("model", "timm.resnet18", "layers").default == (2, 2, 2, 2)
    size = parameter("model", "vit_tiny_patch16_224", "img_size")
    assert (size.default, size.types) == ((224, 224), ("int", "list"))


def test_arguments_fixed_by_a_models_function_are_not_parameters() -> None:
    vgg, vit = card("model", "torchvision.vgg16"), card("model", "torchvision.vit_b_16")
    assert vgg.parameter("dropout") is not None
    assert vgg.parameter("features") is None
    assert vit.parameter("image_size") is not None
    assert vit.parameter("patch_size") is None


def test_few_models_leave_their_arguments_open() -> None:
    names = library.installed().names("model")
    cards = [card("model", name) for name in names[::20]]
    assert len(names) > 1000
    assert sum(found.open_ended for found in cards) <= len(cards) / 10


def test_a_model_for_another_task_says_so() -> None:
    assert card("model", "fasterrcnn_resnet50_fpn").model.task == "image-detection"
    assert card("model", "fcn_resnet50").model.task == "image-segmentation"


def test_a_data_set_knows_its_classes_and_parts() -> None:
    cifar = card("data", "cifar10")
    assert (cifar.data.classes, cifar.data.channels, cifar.data.size) == (10, 3, (32, 32))
    assert cifar.data.split_arguments == {"train": {"train": True}, "test": {"train": False}}
    assert [parameter.name for parameter in cifar.parameters] == ["root", "download"]
    assert not card("data", "mnist").data.is_safe_to_augment
    assert card("data", "flowers102").data.splits == ("train", "val", "test")


def test_a_metric_takes_the_arguments_of_all_its_tasks() -> None:
    accuracy = card("metric", "accuracy")
    names = {parameter.name for parameter in accuracy.parameters}
    assert {"average", "top_k", "threshold", "ignore_index"} <= names
    assert not {"task", "num_classes"} & names
    assert not accuracy.open_ended
    assert "macro" in parameter("metric", "accuracy", "average").choices
    assert accuracy.metric.higher_is_better is True


def test_a_loss_says_which_lists_become_tensors() -> None:
    loss = card("loss", "cross_entropy")
    assert [parameter.name for parameter in loss.parameters if parameter.is_tensor] == ["weight"]
    smoothing = parameter("loss", "cross_entropy", "label_smoothing")
    assert (smoothing.type, smoothing.default) == ("float", 0.0)


def named(kind: str, is_so: Callable[[Card], bool]) -> set[str]:
    """The cards of a kind of which something is true, each once."""
    cards = [card for name in library.installed().names(kind) for card in library.installed().find(kind, name)]
    return {card.name for card in cards if is_so(card)}


def test_the_traits_of_optimizers() -> None:
    assert named("optimizer", lambda card: card.optimizer.needs_closure) == {"torch.LBFGS"}
    assert named("optimizer", lambda card: card.optimizer.is_second_order) == {"timm.adahessian"}


def test_a_default_that_only_the_name_in_timm_has_is_passed_on() -> None:
    nesterov = parameter("optimizer", "timm.sgd", "nesterov")
    assert (nesterov.default, nesterov.passes_default) == (True, True)
    assert not parameter("optimizer", "timm.sgd", "lr").passes_default


def test_a_schedule_says_when_it_is_stepped() -> None:
    assert named("schedule", lambda card: card.schedule.stepped_by == "score") == {"torch.ReduceLROnPlateau"}
    assert named("schedule", lambda card: card.schedule.stepped_by == "step") == {"torch.OneCycleLR", "torch.CyclicLR"}
    assert named("schedule", lambda card: card.schedule.needs_total_steps) == {"torch.OneCycleLR"}


def test_losses_are_tried_on_classes_numbers_and_yes_or_no() -> None:
    def taking(kind: str) -> set[str]:
        return set(named("loss", lambda card: kind in card.loss.targets))

    assert taking("class") == {"torch.CrossEntropyLoss", "torch.MultiMarginLoss", "torch.NLLLoss"}
    assert taking("number") == {"torch.HuberLoss", "torch.L1Loss", "torch.MSELoss", "torch.SmoothL1Loss"}
    assert taking("binary") == {"torch.BCEWithLogitsLoss", "torch.MultiLabelSoftMarginLoss"}


def test_metrics_that_are_not_one_number_are_found() -> None:
    found = named("metric", lambda card: not card.metric.is_single_number)
    assert {"torchmetrics.ConfusionMatrix", "torchmetrics.ROC", "torchmetrics.LogAUC"} <= found
    assert not {"torchmetrics.Accuracy", "torchmetrics.F1Score", "torchmetrics.FBetaScore"} & found


def test_models_with_auxiliary_outputs_are_found() -> None:
    found = named("model", lambda card: card.model.has_auxiliary_outputs)
    assert found == {"torchvision.googlenet", "torchvision.inception_v3"}


def test_nothing_is_absent_where_all_is_installed() -> None:
    assert library.installed().absent() == {}


def test_versions_are_found_without_importlib_metadata() -> None:
    told = {name: importlib.metadata.version(name) for name in versions.LIBRARIES}
    assert versions.installed() == told


# -- how the index is made and kept

QUICK_SURVEY = """
import json, os, pathlib, signal, sys, time
from leaven.survey.card_file import write_sealed

here = pathlib.Path(__file__).parent
with open(here / "runs", "a") as runs:
    runs.write("x")
if (here / "is_killed").exists():
    os.kill(os.getpid(), signal.SIGKILL)
while len((here / "runs").read_text()) < int((here / "together").read_text()):
    time.sleep(0.01)
folder = pathlib.Path(sys.argv[1])
table = {"names": {"sgd": [0]}, "spellings": {"SGD": [0]}, "renamed": {}, "cards": 1}
card = {"name": "torch.SGD", "target": "torch.optim.SGD", "parameters": [{"name": "lr", "type": "float"}]}
for kind in ("optimizer", "loss"):
    write_sealed(folder / f"{kind}.jsonl", [json.dumps(table), json.dumps(card)])
told = {"absent": {"timm": (here / "timm").read_text()}, "time": time.time()}
write_sealed(folder / "libraries.jsonl", [json.dumps(told)])
"""


class Place:
    """A cache of its own, and a survey that takes no time and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.key = f"torch1-{folder.name}"  # what goes to the temporary folder outlives a test
        (folder / "quick_survey.py").write_text(QUICK_SURVEY)
        (folder / "together").write_text("0")
        (folder / "timm").write_text("not installed")

    def library(self, key: str = "") -> Library:
        return Library(key or self.key, survey="quick_survey")

    @property
    def surveys(self) -> int:
        runs = self.folder / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    def file(self, name: str) -> Path:
        return self.cache / "index" / self.key / name


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path)
    monkeypatch.setenv("LEAVEN_CACHE", str(made.cache))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return made


def test_the_index_is_built_once_with_a_message(place: Place) -> None:
    said: list[str] = []
    first = place.library()
    first.prepare(said.append)
    assert first.names("optimizer") == ("sgd",)
    second = place.library()
    second.prepare(said.append)
    assert second.find("optimizer", "torch.SGD")[0].target == "torch.optim.SGD"
    assert second.absent() == {"timm": "not installed"}
    assert said == ["indexing the installed libraries (once)…"]
    assert place.surveys == 1


def test_another_version_gets_an_index_of_its_own(place: Place) -> None:
    assert place.library().names("optimizer") == ("sgd",)
    assert place.library(f"{place.key}-torch2").names("optimizer") == ("sgd",)
    assert place.surveys == 2
    assert place.library().names("optimizer") == ("sgd",)
    assert place.surveys == 2


@pytest.mark.parametrize("damage", [b"", b"\x00" * 64, b'{"format":1,"checksum":0}\n{}'])
def test_a_damaged_file_is_rebuilt(place: Place, damage: bytes) -> None:
    place.library().names("optimizer")
    place.file("optimizer.jsonl").write_bytes(damage)
    again = place.library()
    assert again.names("optimizer") == ("sgd",)
    assert again.names("loss") == ("sgd",)
    assert place.surveys == 2


@pytest.mark.parametrize("where", [0.3, 0.6, 0.99])
def test_a_truncated_or_edited_file_is_rebuilt(place: Place, where: float) -> None:
    place.library().names("optimizer")
    file = place.file("optimizer.jsonl")
    whole = file.read_bytes()
    at = int(len(whole) * where)
    for damaged in (whole[:at], whole[:at] + b"#" + whole[at + 1 :]):
        file.write_bytes(damaged)
        assert place.library().find("optimizer", "sgd")[0].name == "torch.SGD"
    assert place.surveys == 3


@pytest.mark.parametrize("damage", ['{"absent"', '{"absent":{"torch":5}}', "{}", "[]", "5"])
def test_a_damaged_table_of_libraries_is_rebuilt(place: Place, damage: str) -> None:
    place.library().names("optimizer")
    place.file("libraries.jsonl").write_text(damage)
    again = place.library()
    assert again.absent() == {"timm": "not installed"}
    assert again.names("optimizer") == ("sgd",)


def test_a_missing_file_is_rebuilt_once(place: Place) -> None:
    assert place.library().names("model") == ()  # the quick survey knows no models
    assert place.surveys == 2


@pytest.mark.skipif(os.name == "nt", reason="there, no temporary folder is the user's alone")
def test_without_a_writable_cache_the_index_is_built_once_with_a_message(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place.folder))
    place.cache.write_text("a file where the directory should be")
    said: list[str] = []
    for _ in range(2):
        found = place.library()
        found.prepare(said.append)
        assert found.names("optimizer") == ("sgd",)
        assert found.names("loss") == ("sgd",)
    assert place.surveys == 1
    (line,) = said
    assert str(place.cache) in line
    assert "LEAVEN_CACHE" in line


def test_an_interrupted_survey_leaves_nothing(place: Place) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.library().prepare(interrupt)
    assert list((place.cache / "index").iterdir()) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may write everywhere")
def test_a_read_only_cache_is_read(place: Place) -> None:
    place.library().names("optimizer")
    folders = [place.cache, *(entry for entry in place.cache.rglob("*") if entry.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert place.library().names("optimizer") == ("sgd",)
        assert place.surveys == 1
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_two_processes_may_make_it_at_once(place: Place) -> None:
    (place.folder / "together").write_text("2")  # each waits for the other
    program = (
        "from leaven.catalog.library import Library\n"
        f"made = Library('{place.key}', survey='quick_survey')\n"
        "print(made.names('optimizer'), made.names('loss'), made.absent())"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {process.communicate()[0] for process in both}
    assert answers == {"('sgd',) ('sgd',) {'timm': 'not installed'}\n"}
    assert place.surveys == 2
    assert [entry.name for entry in (place.cache / "index").iterdir()] == [place.key]


def test_a_survey_that_fails_leaves_an_empty_index_that_says_why(place: Place) -> None:
    (place.folder / "together").write_text("no number")
    broken = place.library()
    assert broken.names("optimizer") == ()
    assert broken.find("model", "resnet18") == []
    assert "invalid literal for int" in broken.absent()["torch"]
    assert list((place.cache / "index").iterdir()) == []


def test_a_survey_that_failed_is_tried_again_by_the_next_command(place: Place) -> None:
    (place.folder / "together").write_text("no number")
    assert "the next command tries again" in place.library().absent()["torch"]
    (place.folder / "together").write_text("0")
    assert place.library().names("optimizer") == ("sgd",)


@pytest.mark.skipif(os.name == "nt", reason="signals are another matter there")
def test_a_survey_that_was_killed_is_tried_again_by_the_next_command(place: Place) -> None:
    (place.folder / "is_killed").touch()
    assert "signal 9" in place.library().absent()["torch"]
    (place.folder / "is_killed").unlink()
    assert place.library().absent() == {"timm": "not installed"}


def test_a_library_that_breaks_is_tried_again_after_a_while(place: Place) -> None:
    (place.folder / "timm").write_text("can't be imported: ImportError")
    for _ in range(2):
        assert place.library().absent() == {"timm": "can't be imported: ImportError (tried again after 10 minutes)"}
    assert place.surveys == 1
    (place.folder / "timm").write_text("not installed")
    told = json.dumps({"absent": {"timm": "can't be imported: ImportError"}, "time": time.time() - 601})
    place.file("libraries.jsonl").write_bytes(sealed.seal(told.encode()))
    for _ in range(2):
        assert place.library().absent() == {"timm": "not installed"}
    assert place.surveys == 2


@pytest.mark.skipif(os.name == "nt", reason="links are another matter there")
@pytest.mark.parametrize("obstacle", ["file", "dangling link", "looping link"])
def test_anything_in_the_place_of_the_index_is_removed(place: Place, obstacle: str) -> None:
    folder = place.file("x").parent
    folder.parent.mkdir(parents=True)
    if obstacle == "file":
        folder.touch()
    else:
        folder.symlink_to(place.key if obstacle == "looping link" else "nowhere")
    for _ in range(2):
        assert place.library().names("optimizer") == ("sgd",)
    assert place.surveys == 1


def test_a_module_in_the_place_of_a_library_gets_an_index_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')")
    program = "from leaven.catalog import versions; print(versions.key())"
    monkeypatch.chdir(tmp_path)
    keys = set()
    for path in ("", str(tmp_path), ".", ".."):
        places = os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            env={**os.environ, "PYTHONPATH": places},
            capture_output=True,
            text=True,
            check=True,
        )
        keys.add(done.stdout)
    assert len(keys) == 3


def test_a_missing_survey_is_reported(place: Place) -> None:
    assert "No module named" in Library(place.key, survey="leaven.survey.nothing").absent()["timm"]


def test_a_file_of_the_users_does_not_take_the_place_of_a_library(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = place.folder / "stand"
    stand.mkdir()
    (stand / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(stand)
    assert place.library().names("optimizer") == ("sgd",)
