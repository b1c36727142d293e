"""Friendly names of classes."""

import pytest

from leaven.survey.names import shorter, spellings


@pytest.mark.parametrize(
    ("kind", "name", "friendly"),
    [
        ("optimizer", "AdamW", "adamw"),
        ("optimizer", "SGD", "sgd"),
        ("optimizer", "RMSprop", "rmsprop"),
        ("optimizer", "SparseAdam", "sparse_adam"),
        ("loss", "CrossEntropyLoss", "cross_entropy"),
        ("loss", "BCEWithLogitsLoss", "bce_with_logits"),
        ("loss", "PoissonNLLLoss", "poisson_nll"),
        ("loss", "SmoothL1Loss", "smooth_l1"),
        ("loss", "KLDivLoss", "kl_div"),
        ("schedule", "StepLR", "step_lr"),
        ("schedule", "ReduceLROnPlateau", "reduce_lr_on_plateau"),
        ("transform", "RandomResizedCrop", "random_resized_crop"),
        ("transform", "RandomIoUCrop", "random_iou_crop"),
        ("transform", "ToPILImage", "to_pil_image"),
        ("data", "CIFAR10", "cifar10"),
        ("data", "FashionMNIST", "fashion_mnist"),
        ("data", "FGVCAircraft", "fgvc_aircraft"),
        ("data", "CelebA", "celeba"),
        ("metric", "F1Score", "f1_score"),
        ("metric", "AUROC", "auroc"),
        ("metric", "R2Score", "r2_score"),
    ],
)
def test_a_class_has_a_friendly_name(kind: str, name: str, friendly: str) -> None:
    assert spellings(name, kind)[0] == friendly
    assert name in spellings(name, kind)


def test_random_is_left_out_only_where_the_rest_is_free() -> None:
    taken = {"random_grayscale", "grayscale", "random_crop"}
    assert shorter("random_crop", taken) == "crop"
    assert shorter("random_grayscale", taken) is None
    assert shorter("grayscale", taken) is None
