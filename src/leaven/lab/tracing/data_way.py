"""The ways of samples through the data of a program: as an epoch of training draws them, or as evaluation does."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from leaven.formats.finite_json import as_json
from leaven.lab.tracing.batches import EpochOfPhase, Landing, epoch_of_phase, landing_of
from leaven.lab.tracing.opened import SPLITS, Found, Opened, SplitName, find, step_names
from leaven.lab.tracing.steps import Step, StepName, Way, text_steps
from leaven.lab.tracing.warnings import DataWarning, Facts, warnings_of
from leaven.plan.plan import PublishedInputs, TrainPhase, Transforms
from leaven.runtime.data.batches import Data, IndexedSplit, Split
from leaven.runtime.data.loading import BatchKey, DrawnSample, copied, transforms_in
from leaven.runtime.data.texts import Tokenizer
from leaven.runtime.failures import Failure

Wanted = Literal["train", "val", "test", "eval"]
TOKENIZE = "tokenize"


@dataclass(frozen=True, eq=False, repr=False)
class Draw:
    """The way of a sample in an epoch, which counts from 1."""

    sample: str
    target: str
    epoch: int
    steps: tuple[Step, ...]
    landing: Landing | None = None  # None where it is in no batch

    @property
    def is_text(self) -> bool:
        return self.steps[0].text is not None

    @as_json
    def to_json(self) -> dict[str, Any]:
        landing = self.landing.to_json() if self.landing is not None else None
        return {"epoch": self.epoch, "steps": [step.to_json() for step in self.steps], "batch": landing}


@dataclass(frozen=True, eq=False)
class DataWay:
    """The way through the data of a program: of `train`, `val` or `test`, or by `eval` that of evaluation for any
    sample. Epochs count from 0."""

    opened: Opened
    wanted: Wanted

    @property
    def data(self) -> Data:
        return self.opened.data

    @property
    def trains(self) -> bool:
        return self.wanted == "train"

    @property
    def transforms(self) -> Transforms:
        data = self.opened.plan.data
        return data.train if self.trains else data.eval

    # -- samples

    def find(self, sample: str | int | None) -> Found | None:
        """The sample that is meant; None for the first of an epoch."""
        splits: Sequence[SplitName] = SPLITS if self.wanted == "eval" else (self.wanted,)
        if sample is not None:
            return find(self.data, sample, splits)
        return Found("train", 0) if self.wanted == "eval" else None

    def found_again(self, draw: Draw) -> Found | None:
        """The sample of a draw, to be found in other epochs; None where its split has no names."""
        name: SplitName = "train" if self.wanted == "eval" else self.wanted
        split = getattr(self.data, name)
        if not isinstance(split, IndexedSplit):
            return None
        named = split.reader.dataset.name
        numbers = enumerate(split.reader.indices.tolist())
        return next((Found(name, at) for at, index in numbers if named(index) == draw.sample), None)

    def first_of(self, epoch: int, most: int) -> list[Found]:
        """The first samples of an epoch."""
        split = getattr(self.data, self.wanted)
        assert isinstance(split, IndexedSplit), "the samples of a stream have no numbers"
        indices = [index for key in split.keys(epoch) for index in key.indices.tolist()][:most]
        rows = split.reader.rows()
        name: SplitName = "train" if self.wanted == "eval" else self.wanted
        return [Found(name, int(rows[index])) for index in dict.fromkeys(indices)]

    # -- draws

    def draw(self, where: Found | None, epoch: int) -> Draw:
        """The way of a sample in an epoch, and the batch in which it lands."""
        during = self._during(epoch)
        split = self._split(where, during)
        drawn = self._drawn(where, split, epoch)
        steps = tuple(self._steps(drawn, is_timed=True))
        landing = landing_of(drawn, split, self.data, epoch, during) if self.wanted != "eval" else None
        return Draw(drawn.name, self._target(drawn), epoch + 1, steps, landing)

    def looked_at(self, where: Found | None, epoch: int) -> Sequence[Step]:
        """The steps of a sample alone."""
        return self._steps(self._drawn(where, self._split(where, self._during(epoch)), epoch), is_timed=False)

    def _during(self, epoch: int) -> EpochOfPhase | None:
        return epoch_of_phase(self.opened.program, self.opened.plan, self.data, epoch) if self.trains else None

    def _split(self, where: Found | None, during: EpochOfPhase | None) -> Split:
        data = self.data
        if during is not None and during.views is not None:
            data = data.with_views(during.views)
        name = where.split if where is not None else self.wanted
        split: Split = getattr(data, name)
        if not len(split):
            raise Failure(f"the data has no samples for {name}")
        return split

    def _drawn(self, where: Found | None, split: Split, epoch: int) -> DrawnSample:
        """A sample before its transforms, for which the generators are then seeded."""
        if self.wanted == "eval":
            assert where is not None, "evaluation has no order of its own"
            if not isinstance(split, IndexedSplit):
                raise Failure("the samples of a stream can't be evaluated one by one", "`--split train`")
            reader = replace(split.reader, transform=self.data.eval_transform, is_train=False)
            index = split.reader.indices[where.number : where.number + 1]
            return reader.drawn(BatchKey(0, [where.number], index), 0)
        drawn = split.drawn(epoch, None if where is None else where.number)
        if drawn is None:
            raise Failure(f"no batch of epoch {epoch + 1} has that sample", "choose another epoch: `--epoch 2`")
        return drawn

    def _steps(self, drawn: DrawnSample, *, is_timed: bool) -> list[Step]:
        transform = self.data.train_transform if self.trains else self.data.eval_transform
        names = step_names(self.transforms, transforms_in(transform))
        if isinstance(transform, Tokenizer):
            line = names[0].line if names else None
            return text_steps(transform, drawn.given[0], StepName(TOKENIZE, line))
        own = transforms_in(copied(transform))
        about = "data.train" if self.trains else "data.eval"
        way = Way(self.data.samples, self.data.target, own, names, self._stored, is_timed, about)
        return way.steps(drawn.given)

    @property
    def _stored(self) -> int:
        """How many of the first transforms are computed once per image."""
        decoded = self.opened.plan.data.decoded
        return max((one.transforms for one in decoded if one.split == self._planned), default=0)

    @property
    def _planned(self) -> str:
        """The split by which the plan says what is stored."""
        return "train" if self.trains else "val"

    def _target(self, drawn: DrawnSample) -> str:
        one = self.data.samples.targets([tuple(drawn.given[1:])], [drawn.value])[0]
        return self.data.samples.caption(one, self.data.target).replace("\n", ", ")

    # -- about them

    def notes(self, epoch: int) -> tuple[str, ...]:
        """Where a run takes a shorter way, as the planner decided."""
        plan = self.opened.plan
        noted = [
            f"a run decodes each image once{one.text} and stores the result: later epochs start there"
            for one in plan.data.decoded
            if one.split == self._planned
        ]
        phases = self._phases(epoch)
        for phase in phases:
            if self._planned in phase.stored:
                once = "it stores the outputs of the frozen layers"
                noted.append(f'in phase "{phase.name}", a run goes this way once per image: {once}')
            if phase.views is not None and self.trains:
                noted.append(f'phase "{phase.name}" uses {phase.views.text or phase.views.value} views of each image')
        return tuple(noted)

    def _phases(self, epoch: int) -> Sequence[TrainPhase]:
        """Those that the draw may be of."""
        during = self._during(epoch)
        return self.opened.plan.phases if during is None else [during.phase]

    def warnings(self, examined: Sequence[Sequence[Step]]) -> tuple[DataWarning, ...]:
        """The warnings about some ways."""
        plan = self.opened.plan
        is_own = self.trains and not plan.data.is_same
        inputs = plan.model.inputs
        known = inputs if isinstance(inputs, PublishedInputs) else None
        return warnings_of(examined, Facts("train" if is_own else "eval", known))
