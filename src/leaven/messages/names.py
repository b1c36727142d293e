"""Reports about names that mean nothing."""

from collections.abc import Sequence

from leaven.catalog.user_code import ImportedModule
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error


def not_defined(written: syntax.Name, module: ImportedModule, near: Sequence[str]) -> Diagnostic:
    """`mine.Net` where the imported file defines no `Net`."""
    alias, _, name = written.path.partition(".")
    return error(
        "unknown-name",
        f"`{module.module.target}` defines no `{name}`",
        Spot(written.span, "not in that file"),
        Spot(module.span, "imported here"),
        fix=Fix(f"did you mean `{alias}.{near[0]}`?", Edit(written.span, f"{alias}.{near[0]}")) if near else None,
    )
