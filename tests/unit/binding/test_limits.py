"""Recipes that expand too far are refused at once, however they do it."""

import pytest

import leaven
from leaven.language.source import Source

HEAD = "model resnet18()\ndata digits()\n"
DOUBLING = "".join(f"let s{n} = s{n - 1} + s{n - 1}\n" for n in range(1, 11))  # 1,024 words in the last

LARGE = {
    "a let that doubles others": "let s0 = head\n" + "".join(f"let s{n} = s{n - 1} + s{n - 1}\n" for n in range(1, 40)),
    "a selector that is used often": f"let s0 = head\n{DOUBLING}"
    + "".join(f'phase "p{n}", epochs=1 {{ freeze s10 - stem }}\n' for n in range(60)),
    "a repeated stage": "data digits() { train resize(32) * 1000 * 1000 }\n",
    "repeated stages in many places": "".join(
        f'phase "p{n}", epochs=1 {{ distill conv(8) * 9000 -> linear(classes) }}\n' for n in range(7)
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_what_expands_too_far_is_reported_once(case: str) -> None:
    text = LARGE[case]
    source = HEAD.replace("data digits()\n", "") + text if text.startswith("data") else HEAD + text
    found = [report.id for report in leaven.check(Source("recipe.leaven", source)).diagnostics]
    assert found.count("too-large") == 1, found


def test_a_let_that_is_used_often_is_fine() -> None:
    phases = "".join(f'phase "p{n}", epochs=1 {{ freeze body }}\n' for n in range(1_000))
    assert leaven.check(Source("recipe.leaven", f"{HEAD}let body = all - head\n{phases}")).recipe is not None
