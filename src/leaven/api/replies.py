"""The types of answers. What depends on the task of a model, such as a prediction, is an object of its own."""

from typing import Any, Literal

from pydantic import BaseModel, Field

Numbers = list[float | None]


class Problem(BaseModel):
    """What can't be done, and what to do about it."""

    error: str
    help: str


class Lab(BaseModel):
    """The lab: what it was started with."""

    version: str
    given: list[str] = Field(description="The words on the command line")
    folders: list[str]
    runs_code: bool = Field(description="Whether Python code of recipes, runs and bundles may be run")
    most_models: int
    memory: int = Field(description="Bytes that a model may have")
    seconds: float = Field(description="After which a model is ended that does not answer")
    extras: dict[str, bool] = Field(description="Whether optional libraries are installed")


class Listed(BaseModel):
    """A run, bundle, recipe or published model."""

    name: str
    kind: Literal["run", "sweep", "bundle", "recipe", "published"]


class Loaded(BaseModel):
    """A process with models."""

    models: list[str]
    state: Literal["idle", "busy", "ended"]
    pid: int | None
    problem: str = Field(description="How it ended, if it did not end well")


class Models(BaseModel):
    """What can be asked, a page of it, and what is loaded."""

    items: list[Listed]
    total: int
    loaded: list[Loaded]


class Model(BaseModel):
    """A loaded model."""

    model: str
    task: str
    takes: Literal["image", "text"]
    shape: list[int]
    outputs: list[str] = Field(description="The first thousand names of outputs, such as classes")
    output_count: int
    about: str
    scores: dict[str, float]
    parameters: int
    caveats: list[str]
    run: str | None
    is_finished: bool
    edits: list[str]
    methods: list[str]


class Closed(BaseModel):
    closed: bool


class Parameter(BaseModel):
    """An argument of an edit."""

    name: str
    type: Literal["number", "count", "text", "word"]
    low: float | None
    high: float | None
    default: float | int | str | None
    choices: list[str]


class EditKind(BaseModel):
    """A kind of edit. `sweep` is the range of its first argument that is tried, `neutral` the value that changes
    nothing."""

    name: str
    takes: Literal["image", "text"]
    summary: str
    neutral: float | None
    sweep: list[float] | None
    by_word: bool
    parameters: list[Parameter]


class Upload(BaseModel):
    """An image that was sent."""

    upload: str
    format: str
    width: int
    height: int


class Change(BaseModel):
    name: str
    before: float | None
    after: float | None
    difference: float | None


class Flipped(BaseModel):
    before: str
    after: str
    flipped: bool


class Answer(BaseModel):
    """The answer of a model before the edits and after; predictions are as `leaven predict --json` has them."""

    model: str
    before: dict[str, Any]
    after: dict[str, Any]
    answer: Flipped
    changes: list[Change]
    agreement: str = Field(description="How far places of objects or pixels are as before")
    words: str
    python: str = Field(description="A program that gives the same answer")


class Predicted(BaseModel):
    """The answers of some models, and whether they agree."""

    edits: list[dict[str, Any]]
    answers: list[Answer]
    agreement: str
    recipe: str | None = Field(description="Transforms that prepare a model for such inputs")
    check: str = Field(description="The check that the edits don't change the first answer")
    python: str


class FlipPoint(BaseModel):
    """An edit with which an answer is another."""

    model: str
    at: float
    before: str
    after: str
    size: float
    edits: list[dict[str, Any]]
    words: str


class Flip(FlipPoint):
    recipe: str | None
    python: str


class MaybeFlip(BaseModel):
    """The smallest edit that changes an answer; null where there is none."""

    flip: Flip | None


class Series(BaseModel):
    name: str
    values: Numbers


class Curve(BaseModel):
    """The answers of one model at each value."""

    model: str
    answers: list[str]
    numbers: list[Series]
    flips: list[FlipPoint]
    words: str
    python: str


class Curves(BaseModel):
    """A curve for each model while an edit grows."""

    vary: str
    neutral: float | None
    values: list[float]
    curves: list[Curve]
    python: str


class Token(BaseModel):
    token: str
    value: float


class Attribution(BaseModel):
    """A line of the stream: what is known so far. Of images `map` has sums over the part of the image in `crop` (left,
    top, right, bottom); of texts `tokens` have values."""

    model: str
    target: str
    score: float
    method: str
    final: bool
    size: list[int] | None = None
    crop: list[float] | None = None
    map: list[list[float]] | None = None
    tokens: list[Token] | None = None
    python: str


class StreamProblem(Problem):
    """The last line of a stream that failed."""

    status: int


class Layer(BaseModel):
    path: str
    type: str
    parameters: int
    trainable: int
    output: list[int] | None
    flops: int | None


class Layers(BaseModel):
    """Layers in the order of the modules, a page of them."""

    items: list[Layer]
    total: int
    head: list[str]
    stem: list[str]
    stages: list[list[str]]


class TensorSummary(BaseModel):
    shape: list[int]
    mean: float | None = None
    deviation: float | None = None
    least: float | None = None
    most: float | None = None


class Reading(BaseModel):
    """One call of a layer."""

    path: str
    type: str
    input: TensorSummary | None
    output: TensorSummary | None
    gradient: TensorSummary | None


class Changed(Answer):
    """The answer without a change of layers and with it."""

    layers: list[str]


class Comparison(BaseModel):
    """A comparison; see `leaven compare --json`."""

    a: str
    b: str
    words: str
    claim_about_training: str
    measured: dict[str, Any]
    paired: dict[str, Any] | None
    seeds: dict[str, Any] | None
    differences: list[dict[str, Any]]
    costs: dict[str, Any]
    layers: list[dict[str, Any]]
    notes: list[str]
    python: str


class SavedCheck(BaseModel):
    file: str
    check: str


class JournalEntry(BaseModel):
    """A question with its answer in words."""

    call: str
    models: list[str]
    input: Any
    edits: list[dict[str, Any]]
    words: str
    at: str
    check: str


class JournalPage(BaseModel):
    """The newest questions first."""

    items: list[JournalEntry]
    total: int


# -- recipes


class Position(BaseModel):
    """Lines and columns count from 1, offsets from 0, in code units of UTF-16."""

    line: int
    column: int
    offset: int


class Spot(BaseModel):
    file: str
    start: Position
    end: Position
    label: str


class TextEdit(BaseModel):
    file: str
    start: Position
    end: Position
    text: str
    is_option: bool


class Diagnostic(BaseModel):
    """A report. `is_here` says whether its place is in the text that was sent; `edits` are the fix, if there is one."""

    id: str
    severity: Literal["error", "warning", "note"]
    headline: str
    file: str | None
    is_here: bool
    spots: list[Spot]
    notes: list[str]
    help: str | None
    edits: list[TextEdit]
    text: str = Field(description="As a terminal shows it")


class Checked(BaseModel):
    ok: bool
    summary: str
    diagnostics: list[Diagnostic]


class CheckedText(Checked):
    """The reports, and a text: empty where there are errors."""

    text: str


class Shown(CheckedText):
    recipe: dict[str, Any] | None


class Formatted(BaseModel):
    ok: bool
    text: str


class Completion(BaseModel):
    label: str
    kind: str
    detail: str
    text: str


class Completions(BaseModel):
    """The words for a place; `start` is where the word that is typed begins, in code units of UTF-16."""

    start: int
    items: list[Completion]


class Fact(BaseModel):
    label: str
    fact: str


class CardParameter(BaseModel):
    name: str
    takes: str
    is_required: bool
    default: str | None
    summary: str


class Card(BaseModel):
    """The card of a name; its article is Markdown."""

    name: str
    kind: str
    noun: str
    source: str
    summary: str
    article: str
    facts: list[Fact]
    parameters: list[CardParameter]


class MaybeCard(BaseModel):
    card: Card | None


class CatalogItem(BaseModel):
    name: str
    kind: str
    summary: str
    source: str


class CatalogPage(BaseModel):
    """Entries of the catalog; `nearest` has names that may be meant where there are none."""

    items: list[CatalogItem]
    total: int
    nearest: list[str]


class Explanation(BaseModel):
    """A page in Markdown, or cards."""

    text: str
    cards: list[Card]


class RecipeFile(BaseModel):
    file: str
    text: str


# -- runs


class Run(BaseModel):
    """A run in short."""

    run: str
    state: Literal["running", "finished", "stopped"]
    epochs: int
    scores: dict[str, float | None]
    started: str
    is_quick: bool
    is_sweep: bool


class Runs(BaseModel):
    """Runs, the newest first, a page of them."""

    items: list[Run]
    total: int


class RunDetails(Run):
    recipe: str
    resolved: str
    plan: str
    python: str
    files: list[str]


class Rows(BaseModel):
    """Rows of metrics from a row on; the next request asks from `next`. Numbers that are not finite are null."""

    rows: list[dict[str, int | float | str | None]]
    next: int
    total: int
    state: Literal["running", "finished", "stopped"]


class Points(BaseModel):
    """A chart of at most a thousand points, in which peaks stay."""

    x: list[float]
    series: list[Series]


class Printed(BaseModel):
    """The end of what a run that was started here has printed."""

    text: str


class Started(Checked):
    """The run that was started; null where the recipe has errors."""

    run: str | None


class Stopped(BaseModel):
    """Whether the run was asked to save and stop."""

    stopped: bool
