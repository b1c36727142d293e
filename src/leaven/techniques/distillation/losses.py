"""How far a student is from its teacher, each way as its paper has it.

Outputs are compared as logits, a row for each image; features as maps (batch, channels, height, width) whose height
and width agree. Everything is a mean over the batch, so that a weight means the same for every batch size.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

_TINY = 1e-8

# -- of outputs


def kd_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Hinton et al. 2015: T² KL(teacher ‖ student), of probabilities at temperature T.

    Softer outputs have smaller gradients, by the square of the temperature.
    """
    return temperature**2 * _divergence(
        F.log_softmax(student / temperature, dim=1), F.log_softmax(teacher / temperature, dim=1)
    )


def dkd_loss(
    student: Tensor, teacher: Tensor, targets: Tensor, temperature: float, alpha: float, beta: float
) -> Tensor:
    """Zhao et al. 2022: T² (α KL of target against all others + β KL among the others), which plain KD ties together.

    Where targets are shared by several classes, the one with the largest share is the target.
    """
    target = targets if targets.ndim == 1 else targets.argmax(dim=1)
    is_target = F.one_hot(target, student.shape[1]).bool()
    of_target, of_others = [], []
    for logits in (student, teacher):
        log_shares = F.log_softmax(logits / temperature, dim=1)
        others = log_shares[~is_target].view(len(log_shares), -1)
        rest = others.logsumexp(dim=1, keepdim=True)
        of_target.append(torch.cat([log_shares[is_target][:, None], rest], dim=1))  # target against the rest
        of_others.append(others - rest)  # the rest among themselves
    return temperature**2 * (alpha * _divergence(*of_target) + beta * _divergence(*of_others))


def _divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher ‖ student) of logarithms of probabilities."""
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)


def dist_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Huang et al. 2022 (DIST): T² (1 - Pearson's correlation), over the classes of each image and the images of each
    class."""
    ours, theirs = (student / temperature).softmax(dim=1), (teacher / temperature).softmax(dim=1)
    between, within = _correlation(ours, theirs), _correlation(ours.T, theirs.T)
    return temperature**2 * ((1 - between.mean()) + (1 - within.mean()))


def _correlation(ours: Tensor, theirs: Tensor) -> Tensor:
    """Of each row with its counterpart; one that is everywhere the same has none, and no gradient."""
    ours, theirs = (each - each.mean(dim=1, keepdim=True) for each in (ours, theirs))
    length = torch.linalg.vector_norm(ours, dim=1)
    both = length * torch.linalg.vector_norm(theirs, dim=1)
    found: Tensor = (ours * theirs).sum(dim=1) / (both + _TINY) * (length > _TINY)
    return found


# -- of features


def hint_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Romero et al. 2015 (FitNets): the mean square of what remains between the two, the student's projected before."""
    return F.mse_loss(student, teacher)


def attention_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Zagoruyko and Komodakis 2017: the mean square between maps of where the energy lies, each of length 1."""
    return F.mse_loss(_attention(student), _attention(teacher))


def _attention(features: Tensor) -> Tensor:
    return F.normalize(features.pow(2).mean(dim=1).flatten(1), dim=1)


def similarity_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Tung and Mori 2019: ‖G_teacher - G_student‖² / b², G telling how alike the b images of a batch are."""
    return F.mse_loss(_likeness(student), _likeness(teacher))


def _likeness(features: Tensor) -> Tensor:
    rows = features.flatten(1)
    return F.normalize(rows @ rows.T, dim=1)


def relational_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Park et al. 2019 (RKD-DA): Huber's distance between the distances of all pairs, in units of their mean, plus
    twice that between the angles of all triplets."""
    ours, theirs = student.mean(dim=(2, 3)), teacher.mean(dim=(2, 3))
    count = len(ours)
    if count < 2:
        return ours.sum() * 0
    distance = F.smooth_l1_loss(_distances(ours), _distances(theirs))
    if count < 3:
        return distance
    # triplets in which an image stands twice have the same angle on both sides, and add nothing to the sum
    angle = F.smooth_l1_loss(_angles(ours), _angles(theirs), reduction="sum") / (count * (count - 1) * (count - 2))
    return distance + 2 * angle


def _distances(points: Tensor) -> Tensor:
    distances = F.pdist(points)
    return distances / distances.mean().clamp_min(_TINY)


def _angles(points: Tensor) -> Tensor:
    """The cosine of the angle at j between i and k, at [j, i, k]."""
    ways = F.normalize(points[None] - points[:, None], dim=2)
    return ways @ ways.transpose(1, 2)


def contrastive_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """After Tian et al. 2020 (CRD): each image's embedding is to be told from those of the batch's other images by
    the other model, once by the student's and once by the teacher's. Embeddings are rows."""
    alike = F.normalize(student, dim=1) @ F.normalize(teacher, dim=1).T / temperature
    own = torch.arange(len(alike), device=alike.device)
    return F.cross_entropy(alike, own) + F.cross_entropy(alike.T, own)
