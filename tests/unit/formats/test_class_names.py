"""Classes of published weights, and the classes of data that mean them."""

import pytest
from timm.data import ImageNetInfo

from leaven.formats.class_names import Mismatch, match, published_classes, published_set

IMAGENET = published_classes("imagenet-1k")


@pytest.mark.parametrize("outputs", [1000, 11221, 11821, 21841, 21842, 21843])
def test_they_are_those_that_timm_knows(outputs: int) -> None:
    name = published_set(outputs)
    assert name is not None
    classes, info = published_classes(name), ImageNetInfo(name)
    assert classes.wnids == tuple(info.label_names())
    assert [text.removesuffix(f" ({wnid})") for wnid, text in zip(*classes, strict=True)] == info.label_descriptions()
    assert len(set(classes.names)) == outputs


def test_a_class_is_known_by_wnid_or_by_any_of_its_names() -> None:
    given = ["Great_White-Shark", "n02085620-Chihuahua", "Tinca tinca", "n01443537", "tabby, tabby cat"]
    assert match(given, IMAGENET) == (2, 151, 0, 1, 281)


def test_names_in_the_order_of_the_outputs_may_occur_twice() -> None:
    plain = [name.removesuffix(f" ({wnid})") for wnid, name in zip(*IMAGENET, strict=True)]
    assert plain.count("crane") == 2
    assert match(plain, IMAGENET) == tuple(range(1000))
    assert isinstance(match(plain[::-1], IMAGENET), Mismatch)


def test_numbers_are_outputs_only_if_all_of_them_are_there() -> None:
    numbers = sorted(map(str, range(1000)))
    assert match(numbers, IMAGENET) == tuple(map(int, numbers))
    assert isinstance(match(numbers[:10], IMAGENET), Mismatch)


def test_what_is_not_one_output_is_told_with_the_nearest_names() -> None:
    found = match(["chihuahuas", "n99999999"], IMAGENET)
    assert isinstance(found, Mismatch)
    assert found.fact == "the model has no output for the classes `chihuahuas`, `n99999999`"
    assert "the model has `chihuahua`;" in found.help
