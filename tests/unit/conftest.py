"""What unit tests share: a tiny operator of their own, written to a folder and changed as each test needs.

Property tests draw the same examples on every run, so that a failure repeats; KERNEL_LAB_EXAMPLES=N draws N new ones.
"""

import copy
import gc
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from kernel_lab.operators import operator
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Request
from kernel_lab.planning import plans, rendering, selection
from kernel_lab.planning.facts import COMPUTE_FEATURES, PACKING_FEATURE, DeviceFacts
from kernel_lab.planning.includes import Source
from kernel_lab.planning.rendering import Wgsl
from kernel_lab.planning.scopes import Scope, scope_of

_EXAMPLES = os.environ.get("KERNEL_LAB_EXAMPLES")
settings.register_profile(
    "unit",
    max_examples=int(_EXAMPLES or 60),
    derandomize=_EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unit")

_STORAGE = {"type": "read-only-storage"}
_BINDINGS: list[dict[str, Any]] = [
    {"name": "x", "arg": "x", "buffer": _STORAGE},
    {"name": "bias", "arg": "bias", "buffer": _STORAGE, "x-lab": {"absent": "zero"}},
    {"name": "y", "arg": "y", "buffer": {"type": "storage"}},
    {
        "name": "params",
        "buffer": {"type": "uniform"},
        "struct": {"name": "Params", "fields": [{"name": "count", "type": "u32", "value": "count"}]},
    },
]
_MANIFEST: dict[str, Any] = {
    "domain": "lab.test",
    "name": "Tiny",
    "sinceVersion": 1,
    "inputs": [{"role": "x", "dtype": "T"}, {"role": "bias", "dtype": "int32", "optional": True}],
    "outputs": [{"role": "y", "dtype": "T", "rank": "ranks.x", "shape": "shapes.x"}],
    "attributes": {"axis": 1, "pads": None},
    "typeConstraints": {"T": ["uint8", "float32"]},
    "derive": {"count": "numel(shapes.x)"},
    "bindingSets": {"all": _BINDINGS},
    "variants": [{"id": "plain", "passes": [{"use": "copy"}], "x-lab": {"packing": {"*": "packed"}}}],
    "x-lab": {
        "attributeTypes": {"axis": "int", "pads": "ints"},
        "passes": {
            "copy": {
                "id": "copy",
                "shader": "copy.wgsl.jinja",
                "bindings": "all",
                "dispatch": {"threads": "count", "workgroupSize": 64},
            }
        },
    },
}
_TEMPLATE = "{{ env.wgsl.resourceDeclarations }}\n@compute @workgroup_size(64)\nfn main() {\n}\n"


@pytest.fixture
def tiny_manifest() -> dict[str, Any]:
    """The tiny operator's manifest as read from JSON, to be changed: uint8 or float32 x, optional int32 bias, y = x."""
    return copy.deepcopy(_MANIFEST)


@pytest.fixture
def operator_from(tmp_path: Path) -> Callable[..., Operator]:
    """Writes a manifest and other files (text by name) to a new folder: the operator lab.test.Tiny."""
    numbers = itertools.count()

    def write(manifest: dict[str, Any], **files: str) -> Operator:
        folder = tmp_path / str(next(numbers)) / "lab.test.Tiny"
        folder.mkdir(parents=True)
        texts = {"manifest.json": json.dumps(manifest), "copy.wgsl.jinja": _TEMPLATE, **files}
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
        return Operator("lab.test.Tiny", folder, folder / "reference.py")

    return write


@pytest.fixture
def tiny_scope(operator_from: Callable[..., Operator]) -> Callable[..., Scope]:
    """The scope of a request to the operator of that manifest; by default x: uint8[2, 3] alone."""

    def scope(
        manifest: dict[str, Any],
        shape: tuple[int, ...] = (2, 3),
        attrs: dict[str, Any] | None = None,
        dtypes: dict[str, str] | None = None,
        **files: str,
    ) -> Scope:
        dtypes = dtypes or {"x": "uint8"}
        request = Request("lab.test.Tiny", dtypes, dict.fromkeys(dtypes, shape), attrs or {})
        found = scope_of(operator_from(manifest, **files), request)
        assert isinstance(found, Scope), found
        return found

    return scope


@contextmanager
def _soon(seconds: float = 5.0) -> Iterator[None]:
    # Not 0.5: late in a session of thousands of tests, one collection of all their garbage takes a second.
    collecting = gc.isenabled()
    gc.disable()
    started = time.process_time()
    try:
        yield
        spent = time.process_time() - started
    finally:
        if collecting:
            gc.enable()
    assert spent < seconds, f"{spent:.2f} s of processor time"


@pytest.fixture(scope="session")
def soon() -> Callable[..., AbstractContextManager[None]]:
    """A context that must end after little processor time, whoever else uses the machine. What it is to catch takes
    minutes, or all memory: the bound tells that from nothing, and no clock need be precise.
    """
    return _soon


class Rendered(NamedTuple):
    """One rendering: of which template, with which names, to what, and the first case and variant that asked for it."""

    source: Source
    names: dict[str, Any]
    wgsl: Wgsl
    label: str


@pytest.fixture(scope="session")
def renderings() -> list[Rendered]:
    """Every distinct rendering of our operators' templates, for every case and every variant that can compute it."""
    found: dict[tuple[Source, str], Rendered] = {}
    label = ""

    def recording(source: Source, names: dict[str, Any]) -> Wgsl:
        wgsl = rendering.render(source, names)
        found.setdefault((source, wgsl.digest), Rendered(source, names, wgsl, label))
        return wgsl

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "rendering", SimpleNamespace(render=recording))
        patch.setattr(plans, "_uniform_words", lambda *_: (0, 0, 0, 0))  # no template sees them
        for op in operator.load_all().values():
            for case in (case for case in op.cases if case.refused is None):
                scope = scope_of(op, case.request)
                assert isinstance(scope, Scope)
                for variant in (d.variant for d in selection.eligible(scope) if d.can_run):
                    label = f"{case.query}:{variant.id}"
                    for facts in (_RICH, _EMULATING) if variant.lab.emulation else (_RICH,):
                        plans.plan_of(scope, variant, facts)
    return list(found.values())


_MATRIX = {"resultComponentType": "f32", "M": 8, "N": 8, "K": 8}
_RICH = DeviceFacts(
    features=frozenset({PACKING_FEATURE, *COMPUTE_FEATURES}),
    matrix_configs=({"componentType": "f16", **_MATRIX}, {"componentType": "f32", **_MATRIX}),
    info={"subgroupMinSize": 32, "subgroupMaxSize": 32},
)
_EMULATING = replace(_RICH, emulate_matrices=True)
