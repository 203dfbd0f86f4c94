"""What an adapter can do, as the page reported it: the only thing about a machine that planning may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from kernel_lab.errors import LabError

PACKING_FEATURE = "kernel-lab-packing"
"""Ours and no other loader's: variants that pack several elements into a word require it, so that no other loader picks
them.
"""

MATRIX_FEATURE = "chromium-experimental-subgroup-matrix"

COMPUTE_FEATURES = (
    "shader-f16",
    "subgroups",
    "subgroup-size-control",
    MATRIX_FEATURE,
    "timestamp-query",
)
"""The features that kernels may require."""

WEBGPU_DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "maxStorageBuffersPerShaderStage": 8,
        "maxUniformBuffersPerShaderStage": 12,
        "maxStorageBufferBindingSize": 134_217_728,
        "maxUniformBufferBindingSize": 65_536,
        "maxBufferSize": 268_435_456,
        "maxComputeWorkgroupStorageSize": 16_384,
        "maxComputeInvocationsPerWorkgroup": 256,
        "maxComputeWorkgroupSizeX": 256,
        "maxComputeWorkgroupSizeY": 256,
        "maxComputeWorkgroupSizeZ": 64,
        "maxComputeWorkgroupsPerDimension": 65_535,
    }
)
"""https://www.w3.org/TR/webgpu/#limits: what every WebGPU device has at least."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFacts:
    """An adapter's features, limits and name. `masked`: what a profile hid, lowered or claimed. `emulate_matrices`:
    variants that can emulate subgroup matrices must, whatever the adapter has.
    """

    features: frozenset[str] = frozenset()
    language_features: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=lambda: WEBGPU_DEFAULT_LIMITS)
    info: Mapping[str, Any] = field(default_factory=dict)
    matrix_configs: tuple[Mapping[str, Any], ...] = ()
    masked: tuple[str, ...] = ()
    emulate_matrices: bool = False

    @property
    def description(self) -> str:
        """One line for people: who the adapter is, by description and driver rather than by what it claims to be."""
        info = self.info
        name = info.get("description") or info.get("device") or info.get("architecture") or "unnamed adapter"
        driver = f", {info['driver']}" if info.get("driver") else ""
        vendor = f"{info['vendor']}: " if info.get("vendor") and not self.spoofed_ids else ""
        fallback = " [fallback adapter: software, not a GPU]" if self.is_fallback else ""
        return f"{vendor}{name}{driver}{fallback}"

    @property
    def is_fallback(self) -> bool:
        return bool(self.info.get("isFallbackAdapter"))

    @property
    def is_llvmpipe(self) -> bool:
        """Whether it is Mesa's lavapipe, by its description and driver."""
        return "llvmpipe" in f"{self.info.get('description', '')} {self.info.get('driver', '')}".lower()

    @property
    def spoofed_ids(self) -> bool:
        """Whether the adapter reports another one's identity: its description and driver say llvmpipe, its vendor does
        not.
        """
        return self.is_llvmpipe and self.info.get("vendor", "") not in ("mesa", "llvmpipe", "")


def facts_of(report: Mapping[str, Any]) -> DeviceFacts | None:
    """The facts in a page's hello; None if it found no adapter."""
    adapter = report.get("adapter")
    if adapter is None:
        return None
    info = {key: value for key, value in adapter.items() if key != "subgroupMatrixConfigs"}
    return DeviceFacts(
        features=frozenset(report["features"]) | {PACKING_FEATURE},
        language_features=frozenset(report["languageFeatures"]),
        limits=MappingProxyType(dict(report["limits"])),
        info=MappingProxyType(info),
        matrix_configs=tuple(adapter.get("subgroupMatrixConfigs") or ()),
    )


def masked(
    facts: DeviceFacts,
    hidden: tuple[str, ...],
    limits: Mapping[str, int],
    subgroups: tuple[int, int] | None = None,
    emulate_matrices: bool = False,
) -> DeviceFacts:
    """A poorer adapter: those features and language features hidden, those limits lowered, that range of subgroup sizes
    claimed, its subgroup matrices left unused if they are to be emulated. LabError if no subgroup of the adapter can
    have a size of that range.
    """
    lowered = {name: min(value, limits.get(name, value)) for name, value in facts.limits.items()}
    told = [f"{name} {value:,}" for name, value in limits.items() if value < facts.limits.get(name, 0)]
    info = dict(facts.info)
    if subgroups is not None:
        low, high = info.get("subgroupMinSize", 0), info.get("subgroupMaxSize", 0)
        if subgroups[0] > high or subgroups[1] < low:
            raise LabError(
                f"subgroups {subgroups[0]} to {subgroups[1]} cannot be claimed of this adapter, whose subgroups have "
                f"{low} to {high} invocations: results would be wrong."
            )
        info.update(subgroupMinSize=subgroups[0], subgroupMaxSize=subgroups[1])
        told.append(f"subgroups {subgroups[0]} to {subgroups[1]} (the adapter's: {low} to {high})")
    if emulate_matrices:
        told.append("subgroup matrices, which plain WGSL stands in for")
    return replace(
        facts,
        features=facts.features - set(hidden),
        language_features=facts.language_features - set(hidden),
        limits=MappingProxyType(lowered),
        info=MappingProxyType(info),
        matrix_configs=() if MATRIX_FEATURE in hidden else facts.matrix_configs,
        masked=(*sorted(hidden), *told),
        emulate_matrices=emulate_matrices,
    )
