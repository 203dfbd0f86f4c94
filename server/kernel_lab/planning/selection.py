"""Steps 4 and 5: which variants can compute a request, on which device, and in which order; every answer with its
reason.

In: a Scope, then DeviceFacts. Out: Decisions, best first. Pure. Collection stops after `eligible`, without a browser.

The order is the Hub's: default variants first, then by priority, stable in file order; a demoted variant stands behind
all that are not. The first accepted one is selected.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from kernel_lab.errors import LabError
from kernel_lab.operators.manifest import Expr, Manifest, Variant
from kernel_lab.planning import expressions, layout, matrices
from kernel_lab.planning.expressions import Unmet
from kernel_lab.planning.facts import PACKING_FEATURE, WEBGPU_DEFAULT_LIMITS, DeviceFacts
from kernel_lab.planning.scopes import Scope

Stage = Literal["when", "requires", "limits", "emulated", "demoted", "accepted"]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One variant's answer. `stage`: how far it came; `reason`: one sentence, empty when accepted outright.

    A demoted variant can run and is chosen only if no undemoted one can. An emulated one runs only when it is forced.
    """

    variant: Variant
    stage: Stage
    reason: str = ""

    @property
    def can_run(self) -> bool:
        return self.stage in ("accepted", "demoted")

    @property
    def json(self) -> dict[str, str]:
        """As pages and programs are told of it."""
        return {"variant": self.variant.id, "stage": self.stage, "reason": self.reason}

    def __str__(self) -> str:
        words = {"accepted": "Accepted", "demoted": "Accepted, but demoted", "emulated": "Only when forced"}.get(
            self.stage, "No"
        )
        return f"{words}: {self.reason}" if self.reason else f"{words}."


def eligible(scope: Scope) -> tuple[Decision, ...]:
    """Step 4: every variant in its order of preference, judged by the request alone."""
    decisions = [_by_request(variant, scope) for variant in scope.operator.manifest.variants]
    return tuple(sorted(decisions, key=_preference))


def available(decisions: Sequence[Decision], scope: Scope, facts: DeviceFacts) -> tuple[Decision, ...]:
    """Step 5: the same, judged by the device as well."""
    judged = [_by_device(decision, scope, facts) if decision.can_run else decision for decision in decisions]
    return tuple(sorted(judged, key=_preference))


def preferred(decisions: Sequence[Decision], scope: Scope, facts: DeviceFacts) -> Decision | None:
    """What `selected` would say of the available ones, without asking the device about those that come after it."""
    demoted = []
    for decision in decisions:
        if decision.can_run:
            judged = _by_device(decision, scope, facts)
            if judged.stage == "accepted":
                return judged
            demoted.append(judged)
    return selected(sorted(demoted, key=_preference))


def forced_on(decisions: Sequence[Decision], variant: str, scope: Scope, facts: DeviceFacts) -> Decision:
    """What `forced` would say of the available ones, without asking the device about any other."""
    return forced(available([forced(decisions, variant)], scope, facts), variant)


def selected(decisions: Sequence[Decision]) -> Decision | None:
    """The variant that runs unless another is forced: the first that can."""
    return next((decision for decision in decisions if decision.can_run), None)


def forced(decisions: Sequence[Decision], variant: str) -> Decision:
    """The decision about one variant; preferences and demotion do not matter to it. LabError if there is none."""
    found = next((decision for decision in decisions if decision.variant.id == variant), None)
    if found is None:
        known = ", ".join(decision.variant.id for decision in decisions)
        raise LabError(f"there is no variant {variant!r} (known: {known}).")
    return replace(found, stage="accepted") if found.stage in ("demoted", "emulated") else found


def _preference(decision: Decision) -> tuple[bool, bool, int]:
    variant = decision.variant
    return (decision.stage == "demoted", not variant.default, -variant.priority)


def _by_request(variant: Variant, scope: Scope) -> Decision:
    try:
        for condition in _asked_of(variant, "when", "request"):
            value = _value(condition, variant, scope)
            if value is not True:
                return Decision(variant, "when", f"needs `{condition}`, which is {_shown(value)} here.")
        for condition in _asked_of(variant, "demoteWhen", "request"):
            if _value(condition, variant, scope) is True:
                return Decision(variant, "demoted", f"`{condition}` holds, so other routes go first.")
    except Unmet as error:
        return Decision(variant, "when", str(error))
    return Decision(variant, "accepted")


@lru_cache(maxsize=4096)
def _asked_of(variant: Variant, kind: Literal["when", "demoteWhen"], whom: Literal["request", "device"]) -> list[Expr]:
    """Those of a variant's conditions that the request alone decides, or those that a device must be asked, too."""
    conditions = variant.when if kind == "when" else variant.demoteWhen
    device = layout.names_of_device(variant)
    return [c for c in conditions if bool(expressions.names_in(c) & device) == (whom == "device")]


@lru_cache(maxsize=4096)
def _own_names(variant: Variant) -> frozenset[str]:
    """What means something else, or only something, within the variant."""
    return frozenset(variant.derive) | ({"tunables"} if variant.tunables else set())


def _value(condition: Expr, variant: Variant, scope: Scope, facts: DeviceFacts | None = None) -> Any:
    """What the request alone decides is evaluated once per request, whichever variants ask."""
    names = expressions.names_in(condition)
    if names.isdisjoint(_own_names(variant)) and names <= scope.values.keys():
        return scope(condition)
    return expressions.evaluate(condition, layout.variant_values(variant, scope, facts))


def _shown(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else repr(value)


def _by_device(decision: Decision, scope: Scope, facts: DeviceFacts) -> Decision:
    variant = decision.variant
    try:
        for stage, reason in _obstacles(variant, scope, facts):
            return Decision(variant, stage, reason)
        for condition in _asked_of(variant, "when", "device"):
            if _value(condition, variant, scope, facts) is not True:
                return Decision(variant, "when", f"needs `{condition}`, which does not hold on this adapter.")
        for condition in _asked_of(variant, "demoteWhen", "device"):
            if _value(condition, variant, scope, facts) is True:
                return Decision(variant, "demoted", f"`{condition}` holds on this adapter, so other routes go first.")
    except Unmet as error:
        return Decision(variant, "when", str(error))
    if matrices.must_emulate(variant, facts):
        return Decision(variant, "emulated", "emulates subgroup matrices in plain WGSL here, so it is never selected.")
    return decision


def _obstacles(variant: Variant, scope: Scope, facts: DeviceFacts) -> Iterator[tuple[Stage, str]]:
    needs = variant.requires
    emulated = matrices.must_emulate(variant, facts)
    features = [*matrices.features(variant, facts)]
    if "packed" in variant.lab.packing.values():
        features.append(PACKING_FEATURE)
    for feature in features:
        if feature not in facts.features:
            offered = ", ".join(sorted(facts.features - {PACKING_FEATURE})) or "none"
            yield "requires", f"needs the feature {feature!r}; {_offer(feature, facts)}: {offered}."
    for feature in needs.lab.wgslLanguageFeatures:
        if feature not in facts.language_features:
            offered = ", ".join(sorted(facts.language_features)) or "none"
            yield "requires", f"needs the WGSL language feature {feature!r}; {_offer(feature, facts)}: {offered}."
    if needs.subgroupMatrixConfigs and not emulated and matrices.fitting(variant, facts) is None:
        wanted = " or ".join(_config(config.model_dump(exclude_none=True)) for config in needs.subgroupMatrixConfigs)
        offered = ", ".join(_config(config) for config in facts.matrix_configs) or "none"
        yield "requires", f"needs subgroup matrices {wanted}; this adapter offers: {offered}."
    sizes = needs.lab.subgroupSizes
    low, high = facts.info.get("subgroupMinSize"), facts.info.get("subgroupMaxSize")
    if sizes and not (low == high and low in sizes):
        yield (
            "requires",
            f"needs a subgroup size of exactly {' or '.join(map(str, sizes))}; this adapter's is {low} to {high}.",
        )
    if needs.lab.fixedSubgroupSize and not emulated and low != high:
        yield "requires", f"needs subgroups of one size; this adapter's have {low} to {high} invocations."
    for name, expression in needs.lab.limits.items():
        needed, has = _value(expression, variant, scope, facts), facts.limits.get(name, 0)
        if not isinstance(needed, int | float):
            raise Unmet(f"requires.limits.{name} is {needed!r}; it must be a number.")
        if needed > has:
            yield "limits", f"needs {name} of {needed:,}; this adapter has {has:,}."
    yield from (("limits", reason) for reason in layout.beyond_limits(variant, scope, facts))


def limits_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """The limits that decide what runs: those that every plan is held to, and those that the manifests ask about."""
    found = {*layout.BUFFER_LIMITS, layout.BINDINGS_LIMIT, layout.WORKGROUPS_LIMIT}
    for manifest in manifests:
        found.update(re.findall(r"\bdevice\.limits\.(\w+)", manifest.model_dump_json()))
        found.update(name for variant in manifest.variants for name in variant.requires.lab.limits)
    return tuple(name for name in WEBGPU_DEFAULT_LIMITS if name in found)


def features_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """The features and WGSL language features that decide what runs, in order: those that the manifests ask about."""
    found: set[str] = set()
    for manifest in manifests:
        asked = r"\bdevice\.(?:features|wgslLanguageFeatures)(?:\.has\(|, )'([\w-]+)'"
        found.update(re.findall(asked, manifest.model_dump_json()))
        for variant in manifest.variants:
            found.update(variant.requires.features, variant.requires.lab.wgslLanguageFeatures)
    return tuple(sorted(found))


def _offer(feature: str, facts: DeviceFacts) -> str:
    return "this profile masks it and leaves" if feature in facts.masked else "this adapter offers"


def _config(config: Mapping[str, Any]) -> str:
    sizes = "x".join(str(config[key]) for key in "MNK" if key in config)
    return f"{config.get('componentType')}→{config.get('resultComponentType', 'any')}{' ' + sizes if sizes else ''}"
