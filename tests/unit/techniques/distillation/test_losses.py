"""Every distance between student and teacher is that of its paper, computed by hand."""

import math

import pytest
import torch
from torch import Tensor

from leaven.techniques.distillation import losses


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shares(row: list[float], temperature: float) -> list[float]:
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def divergence(theirs: list[float], ours: list[float]) -> float:
    return sum(p * math.log(p / q) for p, q in zip(theirs, ours, strict=True))


# -- outputs


def test_softened_outputs_are_compared_as_hinton_does() -> None:
    student, teacher, temperature = numbers(3, 4, seed=0), numbers(3, 4, seed=1), 3.0
    by_hand = [
        divergence(shares(theirs, temperature), shares(ours, temperature))
        for ours, theirs in zip(student.tolist(), teacher.tolist(), strict=True)
    ]
    found = losses.kd_loss(student, teacher, temperature)
    assert found.item() == pytest.approx(temperature**2 * sum(by_hand) / 3)


def test_decoupled_outputs_are_target_against_others_and_others_among_themselves() -> None:
    student, teacher, temperature = numbers(3, 4, seed=0), numbers(3, 4, seed=1), 2.0
    labels = torch.tensor([2, 0, 3])
    by_hand = 0.0
    for ours, theirs, target in zip(student.tolist(), teacher.tolist(), labels.tolist(), strict=True):
        p, q = shares(ours, temperature), shares(theirs, temperature)
        binary = divergence([q[target], 1 - q[target]], [p[target], 1 - p[target]])
        others = [at for at in range(4) if at != target]
        rest = divergence(shares([theirs[at] for at in others], temperature), shares([ours[at] for at in others], 2.0))
        by_hand += 1.5 * binary + 8 * rest
    found = losses.dkd_loss(student, teacher, labels, temperature, 1.5, 8.0)
    assert found.item() == pytest.approx(temperature**2 * by_hand / 3)


def test_decoupled_with_the_teachers_own_weights_is_plain_distillation() -> None:
    """KD = TCKD + (1 - p_target) NCKD, equation 7 of the paper, here for one image."""
    student, teacher, label = numbers(1, 5, seed=0), numbers(1, 5, seed=1), torch.tensor([3])
    others = 1 - teacher.softmax(dim=1)[0, 3].item()
    found = losses.dkd_loss(student, teacher, label, 1.0, 1.0, others)
    assert found.item() == pytest.approx(losses.kd_loss(student, teacher, 1.0).item())


def test_decoupled_takes_the_larger_share_of_mixed_labels() -> None:
    student, teacher = numbers(2, 3, seed=0), numbers(2, 3, seed=1)
    mixed = torch.tensor([[0.3, 0.7, 0.0], [0.0, 0.4, 0.6]])
    whole = torch.tensor([1, 2])
    assert torch.equal(
        losses.dkd_loss(student, teacher, mixed, 4.0, 1.0, 8.0),
        losses.dkd_loss(student, teacher, whole, 4.0, 1.0, 8.0),
    )


def test_correlated_outputs_are_compared_over_classes_and_over_images() -> None:
    student, teacher, temperature = numbers(4, 3, seed=0), numbers(4, 3, seed=1), 2.0
    ours, theirs = (student / temperature).softmax(1), (teacher / temperature).softmax(1)
    between = [torch.corrcoef(torch.stack(pair))[0, 1].item() for pair in zip(ours, theirs, strict=True)]
    within = [torch.corrcoef(torch.stack(pair))[0, 1].item() for pair in zip(ours.T, theirs.T, strict=True)]
    by_hand = (1 - sum(between) / 4) + (1 - sum(within) / 3)
    assert losses.dist_loss(student, teacher, temperature).item() == pytest.approx(4 * by_hand, rel=1e-5)


def test_outputs_that_are_all_the_same_have_no_correlation_and_no_gradient() -> None:
    student = torch.zeros(4, 3, requires_grad=True)
    losses.dist_loss(student, numbers(4, 3, seed=1).float(), 4.0).backward()
    assert student.grad is not None
    assert not student.grad.any()


# -- features


def test_hints_are_a_mean_square() -> None:
    ours, theirs = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[4.0, 0.0]]]])
    assert losses.hint_loss(ours, theirs).item() == pytest.approx((9 + 4) / 2)


def test_attention_is_where_the_energy_lies() -> None:
    ours = torch.tensor([[[[1.0, 2.0]], [[1.0, 0.0]]]])  # two channels of 1 x 2
    theirs = torch.tensor([[[[3.0, 0.0]]]])
    energy = [(1 + 1) / 2, (4 + 0) / 2]
    length = math.hypot(*energy)
    by_hand = ((energy[0] / length - 1) ** 2 + (energy[1] / length) ** 2) / 2
    assert losses.attention_loss(ours, theirs).item() == pytest.approx(by_hand)


def test_similarity_is_how_alike_the_images_of_a_batch_are() -> None:
    ours, theirs = numbers(3, 2, 2, 1, seed=0), numbers(3, 5, 2, 1, seed=1)
    rows = []
    for features in (ours, theirs):
        flat = features.reshape(3, -1).tolist()
        likeness = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in flat] for one in flat]
        rows.append([[value / math.hypot(*row) for value in row] for row in likeness])
    by_hand = sum((a - b) ** 2 for one, other in zip(*rows, strict=True) for a, b in zip(one, other, strict=True)) / 9
    assert losses.similarity_loss(ours, theirs).item() == pytest.approx(by_hand)


def huber(one: float, other: float) -> float:
    apart = abs(one - other)
    return apart**2 / 2 if apart <= 1 else apart - 0.5


def test_relations_are_distances_of_pairs_and_twice_the_angles_of_triplets() -> None:
    ours, theirs = numbers(4, 3, 2, 2, seed=0), numbers(4, 5, 2, 2, seed=1) * 5
    points = [features.mean(dim=(2, 3)).tolist() for features in (ours, theirs)]
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    triplets = [(i, j, k) for i, j in pairs for k in range(4) if k not in (i, j)]
    lengths = [{(i, j): math.dist(side[i], side[j]) for i, j in pairs} for side in points]
    units = [sum(side.values()) / len(pairs) for side in lengths]
    of_pairs = sum(huber(*(side[pair] / unit for side, unit in zip(lengths, units, strict=True))) for pair in pairs)

    def angle(side: list[list[float]], i: int, j: int, k: int) -> float:
        one, other = ([a - b for a, b in zip(side[end], side[j], strict=True)] for end in (i, k))
        return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))

    of_triplets = sum(huber(*(angle(side, *three) for side in points)) for three in triplets)
    by_hand = of_pairs / len(pairs) + 2 * of_triplets / len(triplets)
    assert losses.relational_loss(ours, theirs).item() == pytest.approx(by_hand)


@pytest.mark.parametrize("count", [1, 2])
def test_relations_of_too_few_images_are_numbers_with_gradients(count: int) -> None:
    ours = numbers(count, 3, 1, 1, seed=0).requires_grad_()
    losses.relational_loss(ours, numbers(count, 3, 1, 1, seed=1)).backward()
    assert ours.grad is not None
    assert ours.grad.isfinite().all()


def test_contrast_asks_each_embedding_for_its_counterpart() -> None:
    ours, theirs, temperature = numbers(3, 4, seed=0), numbers(3, 4, seed=1), 0.5
    cosines = [
        [
            sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))
            for other in theirs.tolist()
        ]
        for one in ours.tolist()
    ]
    found_by_ours = -sum(math.log(shares(cosines[at], temperature)[at]) for at in range(3)) / 3
    turned = [list(row) for row in zip(*cosines, strict=True)]
    found_by_theirs = -sum(math.log(shares(turned[at], temperature)[at]) for at in range(3)) / 3
    found = losses.contrastive_loss(ours, theirs, temperature)
    assert found.item() == pytest.approx(found_by_ours + found_by_theirs)
