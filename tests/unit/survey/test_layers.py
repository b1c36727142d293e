"""Heads, stems and stages of real models and of others."""

import cProfile
import sys
from pathlib import Path
from typing import Any

import pytest

from leaven.components.conv import Conv
from leaven.survey.layers import answer

LAYERS_1_TO_4 = [["layer1"], ["layer2"], ["layer3"], ["layer4"]]


@pytest.mark.parametrize(
    ("name", "head", "stem", "stages"),
    [
        ("timm.resnet18", ["fc"], ["conv1", "bn1"], 4),
        ("timm.convnext_tiny", ["head.fc"], ["stem"], 4),
        ("timm.vit_tiny_patch16_224", ["head"], ["patch_embed"], 12),
        ("timm.mobilenetv3_large_100", ["classifier"], ["conv_stem", "bn1"], 7),
        ("timm.deit_tiny_distilled_patch16_224", ["head", "head_dist"], ["patch_embed"], 12),
        ("timm.resnet18d", ["fc"], ["conv1", "bn1"], 4),
        ("torchvision.resnet18", ["fc"], ["conv1", "bn1"], 4),
        ("torchvision.vgg16", ["classifier.6"], ["features.0"], 5),
        ("torchvision.vgg16_bn", ["classifier.6"], ["features.0", "features.1"], 5),
        ("torchvision.squeezenet1_0", ["classifier.1"], ["features.0"], 8),
        ("torchvision.vit_b_16", ["heads.head"], ["conv_proj"], 12),
        ("torchvision.densenet121", ["classifier"], ["features.conv0", "features.norm0"], 4),
        ("torchvision.convnext_tiny", ["classifier.2"], ["features.0"], 4),
        ("torchvision.regnet_y_400mf", ["fc"], ["stem"], 4),
        ("torchvision.inception_v3", ["fc"], ["Conv2d_1a_3x3"], 3),
        ("torchvision.segmentation.fcn_resnet50", ["classifier.4"], ["backbone.conv1", "backbone.bn1"], 4),
    ],
)
def test_the_parts_of_a_model(name: str, head: list[str], stem: list[str], stages: int) -> None:
    library, _, model = name.partition(".")
    target = "timm.create_model" if library == "timm" else f"torchvision.models.{model}"
    told = answer({"target": target, "timm_name": model if library == "timm" else None, "arguments": {}})
    assert "error" not in told, told
    assert (told["head"], told["stem"], len(told["stages"])) == (head, stem, stages)
    paths = {path for path, *_ in told["modules"]}
    assert {*told["head"], *told["stem"], *(path for stage in told["stages"] for path in stage)} <= paths


def test_a_detectors_head_is_its_predictors() -> None:
    told = answer({"target": "torchvision.models.detection.fasterrcnn_resnet50_fpn"})
    assert told["head"] == ["roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"]


def test_parameters_come_in_the_order_in_which_data_meets_them() -> None:
    told = answer({"target": "torchvision.models.inception_v3"})
    names = [name for name, *_ in told["parameters"]]
    assert told["is_forward_order"]
    assert names[0] == "Conv2d_1a_3x3.conv.weight"
    assert names[-1] == "fc.bias"
    # The auxiliary head is used in training only, and stays where it was defined.
    assert names.index("Mixed_6e.branch1x1.conv.weight") < names.index("AuxLogits.fc.weight")
    assert names.index("AuxLogits.fc.weight") < names.index("Mixed_7a.branch3x3_1.conv.weight")


@pytest.mark.parametrize(
    ("name", "arguments", "size"),
    [
        ("vit_tiny_patch16_224", {}, [224, 224]),
        ("vit_tiny_patch16_224", {"img_size": 96}, [96, 96]),
        ("resnet18", {}, None),
    ],
)
def test_the_size_that_a_model_insists_on(name: str, arguments: dict[str, Any], size: list[int] | None) -> None:
    told = answer({"target": "timm.create_model", "timm_name": name, "arguments": arguments})
    assert told["fixed_input_size"] == size


def test_a_model_that_was_published_without_a_head_gets_one() -> None:
    told = answer({"target": "timm.create_model", "timm_name": "vit_small_patch14_dinov2", "arguments": {}})
    assert told["head"] == ["head"]


def test_a_pipeline_of_components() -> None:
    row = [
        ["leaven.components.conv.Conv", {"channels": 32}],
        ["leaven.components.res_block.ResBlock", {"channels": 64, "stride": 2}],
        ["leaven.components.global_pool.GlobalPool", {}],
        ["leaven.components.linear.Linear", {"features": 7}],
    ]
    told = answer({"pipeline": row, "channels": 1})
    assert "error" not in told, told
    assert (told["stem"], told["stages"], told["head"]) == (["0"], [["1"]], ["3"])
    assert (told["input_channels"], told["classes"]) == (1, 7)
    assert ["3.weight", 64 * 7, [7, 64], "Linear", "3"] in [list(parameter) for parameter in told["parameters"]]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("class Net: pass", "it returns Net, not a torch.nn.Module"),
        ("def Net(): raise ValueError('wrong\\nin two lines')", "wrong"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("def Net(", "SyntaxError: '(' was never closed (mine.py, line 1)"),
        ("other = 1", "AttributeError: module 'mine' has no attribute 'Net'"),
    ],
)
def test_a_failing_user_file_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(code)
    assert answer({"file": str(tmp_path / "mine.py"), "name": "Net", "arguments": {}}) == {"error": error}


@pytest.mark.parametrize(
    ("widths", "conv"),
    [
        ("[int(width) for width in torch.linspace(4, 8, 2)]", "nn.Conv2d(3, widths[1], 3)"),
        ("[4, 8]", "orthogonal(nn.Conv2d(3, widths[1], 3))"),  # looks at the values of the layer's weights
    ],
)
def test_a_constructor_that_looks_at_values_is_built_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widths: str, conv: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "looks.py").write_text(
        "import torch\nfrom torch import nn\nfrom torch.nn.utils.parametrizations import orthogonal\n"
        "def net(num_classes=3):\n"
        f"    widths = {widths}\n"
        f"    return nn.Sequential({conv}, nn.AdaptiveAvgPool2d(1), nn.Flatten(),\n"
        "        nn.Linear(widths[1], num_classes))\n"
    )
    told = answer({"file": str(tmp_path / "looks.py"), "name": "net", "arguments": {}})
    assert (told["head"], told["classes"], told["is_forward_order"]) == (["3"], 3, True)


def test_plain_layers_are_those_that_something_can_be_added_to() -> None:
    told = answer({"target": "timm.create_model", "timm_name": "tf_efficientnet_lite0", "arguments": {}})
    plain = {path for path, _, is_plain in told["modules"] if is_plain}
    assert {"blocks.0.0.conv_pw", "conv_head", "classifier"} <= plain
    # one pads as TensorFlow does, one works in groups, one is no product at all
    assert not {"conv_stem", "blocks.0.0.conv_dw", "bn1"} & plain


def test_stages_of_a_pipeline_that_are_alike_are_tried_once() -> None:
    pipeline: list[tuple[str, dict[str, int]]] = [("leaven.components.conv.Conv", {"channels": 4})] * 50
    pipeline += [("leaven.components.global_pool.GlobalPool", {}), ("leaven.components.linear.Linear", {"features": 3})]
    profile = cProfile.Profile()
    told = profile.runcall(answer, {"pipeline": pipeline, "channels": 1})
    passes = sum(one.callcount for one in profile.getstats() if one.code is Conv.forward.__code__)
    assert passes == 4  # the first and the others, for the shapes and for the trial
    assert told["is_forward_order"]
    assert told["shapes"]["49"] == told["shapes"]["0"] == [4, 224, 224]
    assert told["shapes"][""] == [3]
    assert told["flops"]["49"] == told["flops"]["49.conv"] == 4 * told["flops"]["0"]
    assert "" not in told["flops"]
    assert [name for name, *_ in told["parameters"]][-4:] == [
        "49.norm.weight",
        "49.norm.bias",
        "51.weight",
        "51.bias",
    ]
