"""What expressions may ask about the device, and which of its subgroup matrices a variant uses.

In: a variant and the device's facts. Out: names, and the chosen configuration. Pure.
"""

from collections.abc import Mapping
from typing import Any

from kernel_lab.operators.manifest import MatrixConfig, Variant
from kernel_lab.planning.facts import MATRIX_FEATURE as MATRIX_FEATURE
from kernel_lab.planning.facts import DeviceFacts
from kernel_lab.planning.scopes import Names

MATRIX_FEATURES = frozenset({MATRIX_FEATURE, "subgroups", "shader-f16"})
"""What a variant that can emulate its matrices needs for the real ones alone: its emulation is plain WGSL."""
EMULATED_SIZE = 8
"""M, N and K of an emulated matrix where the variant leaves them open."""


class Features(frozenset[str]):
    """A set of which an expression may ask `device.features.has('subgroups')`, as in the Hub's manifests."""

    def has(self, name: str) -> bool:
        return name in self


def device_names(facts: DeviceFacts) -> dict[str, Any]:
    """What expressions may ask about the device: `device.limits.…`, `device.features.has(…)`, `f16Ok(t)`,
    `f16Allowed(t)`.
    """
    has_f16 = "shader-f16" in facts.features
    half = ("f16", "float16")
    return {
        "device": Names(
            {
                "features": Features(facts.features),
                "wgslLanguageFeatures": Features(facts.language_features),
                "limits": Names(facts.limits),
                "adapterInfo": Names(facts.info),
            }
        ),
        "f16Ok": lambda dtype: dtype not in half or has_f16,
        "f16Allowed": lambda dtype: dtype in ("f32", "float32") or (dtype in half and has_f16),
    }


def fitting(variant: Variant, facts: DeviceFacts) -> Mapping[str, Any] | None:
    """The device's configuration that the variant uses: the first that fits what it wants, in the variant's order."""
    for wanted in variant.requires.subgroupMatrixConfigs:
        for config in facts.matrix_configs:
            if _fits(wanted, config):
                return config
    return None


def must_emulate(variant: Variant, facts: DeviceFacts) -> bool:
    """Whether the variant runs on its emulation of subgroup matrices here, if it runs at all."""
    emulation = variant.lab.emulation
    if emulation is None:
        return False
    lacking = MATRIX_FEATURE not in facts.features or fitting(variant, facts) is None
    return facts.emulate_matrices or (lacking and emulation == "automatic")


def features(variant: Variant, facts: DeviceFacts) -> tuple[str, ...]:
    """The features that the variant needs here."""
    needed = variant.requires.features
    return tuple(f for f in needed if f not in MATRIX_FEATURES) if must_emulate(variant, facts) else tuple(needed)


def names(variant: Variant, facts: DeviceFacts) -> Names | None:
    """`matrix.M`, `.N`, `.K`, `.componentType`, `.resultComponentType`, `.emulated`; none without matrices."""
    wanted = variant.requires.subgroupMatrixConfigs
    if not wanted:
        return None
    emulated = must_emulate(variant, facts)
    config = None if emulated else fitting(variant, facts)
    if config is None:
        first = wanted[0].model_dump(exclude_none=True)
        sizes = dict.fromkeys("MNK", EMULATED_SIZE)
        config = {**sizes, "resultComponentType": first["componentType"], **first}
    return Names({**config, "emulated": emulated})


def _fits(wanted: MatrixConfig, config: Mapping[str, Any]) -> bool:
    return all(config.get(key) == value for key, value in wanted.model_dump(exclude_none=True).items())
