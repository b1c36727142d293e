"""timm's name of a policy becomes the `rand_augment` of equal strength."""

import re

import pytest
from timm.data import auto_augment
from torchvision.transforms import v2

import leaven
from leaven.language.source import Source


@pytest.mark.parametrize("policy", ["rand-m9", "rand-m5-mstd0.5", "rand-m3-n3-inc1", "rand-mstd0.5"])
def test_suggested_magnitude_rotates_as_far_as_timm(policy: str) -> None:
    text = f"model resnet18()\ndata digits() {{ train {policy} -> resize([64, 64]) }}"
    found = leaven.check(Source("mine.leaven", text)).diagnostics
    fix = next(one.fix for one in found if one.fix is not None)
    asked = re.search(r"magnitude=(\d+)", fix.message)
    assert asked is not None
    angles, _ = v2.RandAugment._AUGMENTATION_SPACE["Rotate"]
    ours = float(angles(v2.RandAugment().num_magnitude_bins, 64, 64)[int(asked[1])])
    operations = auto_augment.rand_augment_transform(policy, {}).ops
    rotation = next(one for one in operations if one.name == "Rotate")
    theirs = abs(rotation.level_fn(rotation.magnitude, {})[0])
    assert ours == pytest.approx(theirs)
    assert ("num_ops=3" in fix.message) == ("n3" in policy)
