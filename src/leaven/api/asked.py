"""The bodies of requests: what is asked about, and how."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_MODELS = 2  # that are asked at once
Word = Annotated[str, Field(min_length=1, max_length=4000)]
Edits = Annotated[list[dict[str, Any]], Field(max_length=50)]
Number = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100)]
_TEXT = Annotated[str, Field(max_length=100_000)]


class Asked(BaseModel):
    """A body, in which a misspelt field is an error."""

    model_config = ConfigDict(extra="forbid")


class Input(Asked):
    """An input: one of a file below the lab's folders, an upload, a text, or a pair of texts."""

    file: Word | None = None
    upload: Word | None = None
    text: _TEXT | Annotated[list[_TEXT], Field(min_length=2, max_length=2)] | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if sum(each is not None for each in (self.file, self.upload, self.text)) != 1:
            raise ValueError("give one of `file`, `upload` and `text`")
        return self


class OfModel(Asked):
    model: Word


class OfInput(Asked):
    input: Input
    edits: Edits = []


class Predict(OfInput):
    """Which models answer; edits are applied in their order."""

    models: Annotated[list[Word], Field(min_length=1, max_length=MOST_MODELS)]
    k: Count = 5
    journal: bool = False


class Vary(Predict):
    """The edit that is varied, in a range or through given values."""

    vary: Word
    between: tuple[Number, Number] | None = None
    values: Annotated[list[Number], Field(max_length=1000)] = []
    steps: Annotated[int, Field(ge=2, le=1000)] = 21


class Flip(OfInput, OfModel):
    """The edits that are tried, by default all."""

    names: Annotated[list[Word], Field(max_length=50)] = []


class Attribute(OfInput, OfModel):
    """What is explained: by default the answer."""

    target: Word | None = None
    method: Literal["integrated_gradients", "gradient", "grad_cam", "occlusion"] = "occlusion"
    layer: Annotated[str, Field(max_length=4000)] = ""


class ReadLayers(OfInput, OfModel):
    """Layers by a selector of recipes."""

    layers: Word
    gradients: bool = False
    target: Word | None = None


class ChangeLayers(OfInput, OfModel):
    """Layers that are switched off, or scaled by a factor."""

    layers: Word
    by: Literal["zero", "mean", "factor"] = "zero"
    factor: Number = 0.0
    k: Count = 5


class Picture(OfInput):
    """A changed image at display size."""

    size: Annotated[int, Field(ge=16, le=2048)] = 512


class Compare(Asked):
    """Two models, runs or recipes; with `seeds`, two folders of runs."""

    a: Word
    b: Word
    data: Word | None = None
    split: Literal["train", "val", "test"] | None = None
    seeds: bool = False


class Check(OfInput, OfModel):
    """A check to be saved: in the file of checks beside a bundle, or in `file`."""

    file: Word | None = None


class RecipeText(Asked):
    """A recipe. `file` is where it is or would be saved: paths in it start there."""

    text: Annotated[str, Field(max_length=1_000_000)]
    file: Annotated[str, Field(max_length=4000)] = "recipe.leaven"
    args: dict[str, str] = {}
    settings: Annotated[list[str], Field(max_length=100)] = []


class ProgramText(RecipeText):
    standalone: bool = False


class Place(Asked):
    """A place in a recipe, in code units of UTF-16."""

    text: Annotated[str, Field(max_length=1_000_000)]
    offset: Annotated[int, Field(ge=0, le=2_000_000)]


class PlainText(Asked):
    text: Annotated[str, Field(max_length=1_000_000)]


class Saved(Asked):
    """A recipe to be written to a file below the lab's folders."""

    text: Annotated[str, Field(max_length=1_000_000)]
    file: Word


class StartRun(RecipeText):
    """A run that is started: `quick` is a smoke test."""

    name: Annotated[str, Field(max_length=100)] | None = None
    quick: bool = False


class OfRun(Asked):
    run: Word
