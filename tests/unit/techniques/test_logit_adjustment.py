"""The loss of outputs with a head start for frequent classes."""

from pathlib import Path

import pytest
import torch
from tests.unit.techniques.at_hand import phase_in
from torch import nn

from leaven.techniques import LogitAdjustment


def test_the_loss_is_that_of_the_outputs_plus_the_logarithm_of_the_shares(tmp_path: Path) -> None:
    data, criterion = phase_in(tmp_path).data, nn.CrossEntropyLoss()
    counts = torch.tensor(data.train.class_counts(), dtype=torch.float32)
    outputs, labels = torch.randn(8, 10), torch.arange(8)
    loss = criterion(outputs, labels)
    adjusted = LogitAdjustment(data, criterion, tau=0.5).on_loss(loss, outputs, outputs, labels)
    assert torch.allclose(adjusted, criterion(outputs + 0.5 * torch.log(counts / counts.sum()), labels))


def test_what_others_added_to_the_loss_stays(tmp_path: Path) -> None:
    data, criterion = phase_in(tmp_path).data, nn.CrossEntropyLoss()
    outputs, labels = torch.randn(8, 10), torch.arange(8)
    loss = criterion(outputs, labels)
    technique = LogitAdjustment(data, criterion)
    plain = technique.on_loss(loss, outputs, outputs, labels)
    assert float(technique.on_loss(loss + 3, outputs, outputs, labels)) == pytest.approx(float(plain) + 3, rel=1e-5)


def test_tau_nought_changes_nothing(tmp_path: Path) -> None:
    criterion = nn.CrossEntropyLoss()
    outputs, labels = torch.randn(8, 10), torch.arange(8)
    loss = criterion(outputs, labels)
    assert LogitAdjustment(phase_in(tmp_path).data, criterion, tau=0.0).on_loss(loss, outputs, outputs, labels) == loss
