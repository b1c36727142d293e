"""What the description of the API allows and forbids, asked by schemathesis of a real server."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.served_lab import PREFIX, ServedLab, serving_lab

schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")

LIGHT = f"^{PREFIX}/(lab|runs)$|^{PREFIX}/runs/(metrics|stop)$"
OWN = f"^{PREFIX}/(jobs|environments|coordinator)"  # which tests/unit/jobs asks
NEVER_ENDS = "/runs/follow$"


@pytest.fixture(scope="module")
def own_lab(folder: Path) -> Iterator[ServedLab]:
    """A lab of its own: what is made up may be saved."""
    (folder / "made_up").mkdir()
    with serving_lab(folder / "made_up", ".") as served:
        yield served


def ask_all(lab: ServedLab, schema: Any, examples: int) -> None:
    """Right and wrong requests of each route; every answer must be one that is described."""
    made_up = schemathesis.checks.positive_data_acceptance  # models and files are not those that there are
    token = schemathesis.checks.negative_data_rejection  # it leaves the token out, which is sent nevertheless
    headers = {"Authorization": f"Bearer {lab.token}"}
    settings = hypothesis.settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    for found in schema.get_all_operations():
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @settings
            @hypothesis.given(case=found.ok().as_strategy(mode))
            def asked(case: Any) -> None:
                framing = {"transfer-encoding", "content-length"}  # what is no HTTP gets no answer of the API's
                hypothesis.assume(framing.isdisjoint(name.lower() for name in case.headers or {}))
                case.call_and_validate(headers=headers, excluded_checks=[made_up, token], timeout=600)

            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # what has no parameters can't be asked wrongly
                asked()


def test_routes_that_read_files_answer_as_described(own_lab: ServedLab) -> None:
    schema = schemathesis.openapi.from_url(f"{own_lab.address}/openapi.json")
    ask_all(own_lab, schema.include(path_regex=LIGHT), examples=2)


@pytest.mark.slow
def test_all_routes_answer_as_described(own_lab: ServedLab) -> None:
    schema = schemathesis.openapi.from_url(f"{own_lab.address}/openapi.json")
    ask_all(own_lab, schema.exclude(path_regex=f"{OWN}|{NEVER_ENDS}"), examples=20)
    assert own_lab.get("/lab")["most_models"] == 3
