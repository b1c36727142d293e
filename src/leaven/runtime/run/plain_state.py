"""The plain Python state of the user's code, which no checkpoint has: a run that is resumed says what it has lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leaven.runtime.data.batches import Data
from leaven.runtime.data.loading import OUTSIDE
from leaven.runtime.model.outside import outside_state
from leaven.runtime.model.own_objects import OwnObjects
from leaven.runtime.model.state import changed_names, loose_state, unsaved_state
from leaven.runtime.stored.storing import Answering

_DATA = "data"
_TECHNIQUES = "techniques"
_HELP = {
    _DATA: "use random numbers of Python, NumPy or torch instead, which are seeded for each sample",
    _TECHNIQUES: "save it by `state_dict` and `load_state_dict`",
}
_OF_ALL_PHASES = ("model", _DATA, OUTSIDE)  # the owners that are the same in each


class PlainState:
    """The plain state of a model, its loss, its optimizer, its techniques and its data, and how it was when
    training began."""

    def __init__(self) -> None:
        self._data: Data | None = None
        self._own_data = OwnObjects(())
        self._owners: dict[str, Any] = {}
        self._techniques: Sequence[Any] = ()
        self._before: dict[str, dict[str, Any]] = {}

    def begin_phase(self, data: Data, techniques: Sequence[Any] = (), /, **owners: Any) -> None:
        """Note the state before a phase trains; None owns nothing. `techniques` are those without a `state_dict`."""
        self._data, self._techniques, self._owners = data, techniques, owners
        self._own_data = OwnObjects((data.dataset, data.eval_transform, data.train_transform))
        for owner, state in self._now().items():
            earlier = self._before.get(owner, {}) if owner in _OF_ALL_PHASES else {}
            self._before[owner] = {**state, **earlier}

    def changed(self, parts: Iterable[Any]) -> dict[str, list[str]]:
        """The names of the state that is another one now, by owner; some parts of the phase may have a teacher."""
        found = {owner: changed_names(self._before[owner], state) for owner, state in self._now().items()}
        for owner, name in sorted(self._data.changed_in_workers if self._data is not None else ()):
            found[owner] = [*(each for each in found.get(owner, ()) if each != name), name]
        teachers = [getattr(part, "teacher", None) for part in parts]
        found["teacher"] = [name for each in teachers if isinstance(each, Answering) for name in each.unsaved_state()]
        return {owner: names for owner, names in found.items() if names}

    def _now(self) -> dict[str, dict[str, Any]]:
        if not self._owners:
            return {}
        model = self._owners["model"]
        return {
            **{owner: unsaved_state(each) for owner, each in self._owners.items()},
            _TECHNIQUES: {
                f"{type(each).__name__}.{name}": value
                for each in self._techniques
                for name, value in loose_state(each, model).items()
            },
            _DATA: self._own_data.state(),
            OUTSIDE: outside_state(model),
        }


def lost_state_lines(unsaved: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What a resumed run says about the state that its checkpoint does not have."""
    for owner, names in unsaved.items():
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        of = f" of the {owner}" if owner != OUTSIDE else ""
        help = _HELP.get(owner, "use a buffer, or `get_extra_state`")
        yield (
            f"{shown}{of} changed in training, but plain Python state is not saved in checkpoints, so the"
            f" result may differ from that of an uninterrupted run; {help}"
        )
