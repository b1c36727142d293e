"""What a model keeps besides its weights may be anything; none of it stops a run."""

from collections.abc import Iterator, Mapping

import pytest
from torch import nn

from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.state import changed_names, differences, state_of, unsaved_state


class Lazy(Mapping[str, int]):
    """Opens a file that is not there, as soon as it is read."""

    def __getitem__(self, key: str) -> int:
        raise OSError("no such file")

    def __iter__(self) -> Iterator[str]:
        raise OSError("no such file")

    def __len__(self) -> int:
        return 1


def nested(depth: int) -> list[object]:
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize("kept", [Lazy(), nested(600)], ids=["can't be read", "nested deeply"])
def test_what_can_not_be_read_is_never_the_same(kept: object) -> None:
    model = nn.Linear(2, 2)
    model.kept = kept
    assert differences(state_of(model), state_of(model)) == ["kept"]
    with looking_at(model, or_itself=True) as copied:
        assert isinstance(copied, nn.Linear)


class Counting(nn.Linear):
    calls = 0


def test_what_can_not_be_read_does_not_hide_a_counter_nor_stop_a_checkpoint() -> None:
    model = Counting(2, 2)
    model.kept, model.calls = nested(600), 1
    before = unsaved_state(model)
    model.calls = 2
    assert changed_names(before, unsaved_state(model)) == ["calls"]
