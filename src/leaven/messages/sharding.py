"""Reports about what can't be used where each process has only a part of the parameters."""

from leaven.catalog.values import Invocation, Origin, Setting
from leaven.language.diagnostics import Diagnostic, error


def technique_on_parts(call: Invocation, strategy: Setting) -> Diagnostic:
    name = call.card.bare_name
    return _error(name, call.origin, "needs whole parameters", strategy, f"use `strategy=ddp`, or remove `{name}`")


def optimizer_on_parts(optimizer: Invocation, strategy: Setting) -> Diagnostic:
    fix = "use `strategy=ddp`, or another optimizer, such as `optimizer adamw()`"
    return _error(optimizer.card.friendly, optimizer.origin, "needs whole parameters", strategy, fix)


def override_on_parts(hook: str, origin: Origin, strategy: Setting) -> Diagnostic:
    return _error(hook, origin, "needs the whole model", strategy, f"use `strategy=ddp`, or remove the `{hook}`")


def setting_on_parts(setting: str, origin: Origin, strategy: Setting) -> Diagnostic:
    return _error(
        setting, origin, "not supported with sharded parameters", strategy, "use `strategy=ddp`, or remove it"
    )


def _error(name: str, origin: Origin, label: str, strategy: Setting, fix: str) -> Diagnostic:
    headline, split = f"`{name}` can't be used with `strategy=fsdp`", "each process has only a part of every parameter"
    return error("incompatible-sharding", headline, (origin, label), (strategy, split), fix=fix)
