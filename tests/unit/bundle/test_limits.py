"""How much a bundle from elsewhere may take: attacks are in `test_archive.py` and `test_text_bundles.py`."""

import pytest

from leaven.bundle import limits

# What trials took on one core of a server of 2026: parameters, bytes of the file, bytes of memory, seconds.
MEASURED = {
    "fasterrcnn_mobilenet_v3_large_fpn": (19_000_000, 77_000_000, 0.56 * 2**30, 4.0),
    "maskrcnn_resnet50_fpn": (44_000_000, 177_000_000, 1.28 * 2**30, 13.3),
    "vit_large_patch16_224": (303_000_000, 1_213_000_000, 3.58 * 2**30, 10.8),
    "a BERT with 24 layers": (303_000_000, 1_210_000_000, 3.61 * 2**30, 10.5),
}


@pytest.mark.parametrize("name", MEASURED)
def test_an_honest_model_passes_on_a_machine_that_is_twenty_times_slower(name: str) -> None:
    parameters, size, memory, seconds = MEASURED[name]
    allowed = limits.of_trial(2 * parameters, size)
    assert allowed.seconds > 20 * seconds
    assert allowed.memory > 2 * memory
