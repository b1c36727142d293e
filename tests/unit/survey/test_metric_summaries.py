"""Metrics are described by the class that computes them, not by torchmetrics' deprecated wrapper of it."""

from leaven.catalog import lookup


def test_no_metric_is_described_as_a_wrapper() -> None:
    cards = {card.name: card for name in lookup.names("metric") for card in lookup.find("metric", name)}
    assert "deprecated import" not in " ".join(card.summary for card in cards.values())
    assert cards["torchmetrics.BLEUScore"].summary.startswith("Calculate BLEU score of machine translated text")
