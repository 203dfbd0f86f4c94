"""From a request to its scope: derived values are right, and whatever is asked gives a Scope or one sentence."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab import line
from kernel_lab.operators import dtypes, operator
from kernel_lab.operators.dtypes import DTYPES
from kernel_lab.operators.operator import Operator
from kernel_lab.operators.requests import Opset, Request, request_of
from kernel_lab.planning import scopes, selection
from kernel_lab.planning.facts import PACKING_FEATURE, DeviceFacts
from kernel_lab.planning.scopes import Refused, Scope, TensorType

SHIPPED = operator.load_all()
CASES = [case for op in SHIPPED.values() for case in op.cases]
ANY_DEVICE = DeviceFacts(features=frozenset({PACKING_FEATURE}))
MOST_WORK = 20_000


def scope_of(op: str, shapes: dict[str, tuple[int, ...]], attrs: dict[str, Any], dtype: str = "uint8") -> Scope:
    found = scopes.scope_of(SHIPPED[op], Request(op, dict.fromkeys(shapes, dtype), shapes, attrs))
    assert isinstance(found, Scope), found
    return found


# What the convolution's derived names are, on one geometry in which all numbers differ.


def test_derived_values_of_a_convolution() -> None:
    shapes = {"x": (2, 6, 11, 13), "w": (4, 3, 3, 2)}
    attrs = {"group": 2, "strides": [2, 3], "dilations": [1, 2], "pads": [1, 2, 3, 4]}
    values = scope_of("ai.onnx.ConvInteger", shapes, attrs).values
    assert values["outputs_per_group"] == 2
    assert values["input"] == [1, 11, 13]
    assert values["kernel"] == [1, 3, 2]
    assert values["extent_width"] == 3
    assert values["output"] == [(11 + 1 + 3 - 3) // 2 + 1, (13 + 2 + 4 - 3) // 3 + 1]
    assert values["y_shape"] == [2, 4, 7, 6]
    assert values["given_begin"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("auto_pad", "attrs", "output", "begin"),
    [
        ("VALID", {}, [8], 0),
        ("SAME_UPPER", {}, [11], 1),
        ("SAME_LOWER", {}, [11], 2),
        ("SAME_UPPER", {"strides": [3]}, [4], 1),
        ("SAME_LOWER", {"strides": [3], "dilations": [2]}, [4], 3),
        ("SAME_UPPER", {"strides": [20]}, [1], 0),
    ],
)
def test_auto_pad(auto_pad: str, attrs: dict[str, Any], output: list[int], begin: int) -> None:
    """x of 11, kernel of 4: SAME pads 3 for stride 1, 2 for stride 3 (5 when dilated), none for stride 20."""
    shapes = {"x": (1, 1, 11), "w": (1, 1, 4)}
    values = scope_of("ai.onnx.ConvInteger", shapes, {"auto_pad": auto_pad, **attrs}).values
    assert (values["output"], values["pad_width"]) == (output, begin)


def test_inferred_types() -> None:
    shapes = {"x": (2, 3), "x_scale": (3,)}
    request = Request("DQ", {"x": "int8", "x_scale": "float16"}, shapes, {"output_dtype": 16}, Opset("ai.onnx", 23))
    scope = scopes.scope_of(SHIPPED["ai.onnx.DequantizeLinear"], request)
    assert isinstance(scope, Scope)
    assert scope.outputs == {"y": TensorType("bfloat16", (2, 3))}
    assert scope.tensor("y") == TensorType("bfloat16", (2, 3))
    assert scope.tensor("x_scale") == TensorType("float16", (3,))
    assert scope.tensor("x_zero_point") is None


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        (None, Opset("ai.onnx", 25)),
        (Opset("ai.onnx", 99), Opset("ai.onnx", 25)),
        (Opset("ai.onnx", 22), Opset("ai.onnx", 21)),
        (Opset("ai.onnx", 21), Opset("ai.onnx", 21)),
        (Opset("ai.onnx", 10), Opset("ai.onnx", 10)),
    ],
)
def test_the_newest_row_up_to_the_asked_one_applies(asked: Opset | None, row: Opset) -> None:
    op = SHIPPED["ai.onnx.DequantizeLinear"]
    scope = scopes.scope_of(
        op, Request(op.id, {"x": "int8", "x_scale": "float32"}, {"x": (1,), "x_scale": ()}, {}, asked)
    )
    assert isinstance(scope, Scope)
    assert scope.opset == row


@pytest.mark.parametrize(
    ("op", "asked", "allowed"),
    [
        ("ai.onnx.ConvInteger", Opset("ai.onnx", 9), "ai.onnx opset 10 and newer."),
        ("ai.onnx.ConvInteger", Opset("com.microsoft", 1), "ai.onnx opset 10 and newer."),
        ("com.microsoft.QLinearConv", Opset("", 1), "com.microsoft opset 1 and newer or ai.onnx opset 10 and newer."),
    ],
)
def test_an_opset_without_the_operator_is_refused(op: str, asked: Opset, allowed: str) -> None:
    found = scopes.scope_of(SHIPPED[op], Request(op, {}, {}, {}, asked))
    assert found == Refused(f"opset: got {asked}, but {op.rpartition('.')[2]} exists in {allowed}")


# The memo: one scope per operator and request, and equal keys for equal requests only.


def test_a_scope_is_made_once() -> None:
    one, other = (scope_of("ai.onnx.ConvInteger", {"x": (1, 1, 4), "w": (1, 1, 2)}, {}) for _ in range(2))
    assert one is other
    scopes.forget()
    assert scope_of("ai.onnx.ConvInteger", {"x": (1, 1, 4), "w": (1, 1, 2)}, {}) is not one


def test_operators_of_the_same_id_have_scopes_of_their_own(
    operator_from: Callable[..., Operator], tiny_manifest: dict[str, Any]
) -> None:
    """Ones that are gone must not lend their address, and with it their answers, to later ones."""
    request = Request("lab.test.Tiny", {"x": "uint8"}, {"x": (2,)}, {})
    answers = []
    for dtype in ["uint8", "float32"] * 10:
        tiny_manifest["typeConstraints"]["T"] = [dtype]
        answers.append(isinstance(scopes.scope_of(operator_from(tiny_manifest), request), Scope))
    assert answers == [True, False] * 10


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, "1"), (1, 1.0), ([1], (1,)), ([1], [True]), (None, "None"), ([], {}), ("[1]", [1])],
)
def test_attributes_of_other_types_make_other_requests(one: Any, other: Any) -> None:
    keys = {Request("op", {}, {}, {"a": value}).key for value in (one, other)}
    assert len(keys) == 2


def test_equal_requests_have_equal_keys_whatever_their_order() -> None:
    arrays = {"x": np.zeros((2, 3), np.uint8), "w": np.zeros(4, np.int8)}
    one = request_of("op", arrays, {"a": 1, "b": [2]})
    other = request_of("op", dict(reversed(arrays.items())), {"b": [2], "a": 1})
    assert one.key == other.key
    assert one.key != request_of("op", arrays, {"a": 1, "b": [2]}, Opset("ai.onnx", 10)).key


# Anything may be asked.

ODD_DIMS = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 2**16, 2**31, 2**70])
ODD_VALUES = st.sampled_from(
    [
        *(None, True, 0, 1, 2, 3, 10, 16, -1, -2, 2**31, 2**70, -(2**70), 1.0, 1.5, math.nan, math.inf),
        *("", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "same", "two\nlines", "1", b"bytes", range(2), (1, 1)),
        *([], [0], [1], [2, 2], [1, 2, 3], [0, 0], [0, 1, 2, 3], [-1, 1], [2**70, 1], [3, 3], [1, 1, 1, 1], [2] * 6),
        *([None], [True], [1.0], ["1"], [[1]], [[1], [2]]),
    ]
)
ATTRIBUTES = sorted({name for op in SHIPPED.values() for name in op.manifest.attributes} | {"nosuch"})
ROLES = sorted({item.role for op in SHIPPED.values() for item in op.manifest.inputs} | {"nosuch"})
OPSETS = st.one_of(
    st.none(),
    st.builds(Opset, st.sampled_from(["ai.onnx", "com.microsoft", "nosuch"]), st.integers(-1, 30) | st.just(2**70)),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A case's request with one to three things changed."""
    case = draw(st.sampled_from(CASES)).request
    shapes, kinds, attrs, opset = dict(case.shapes), dict(case.dtypes), dict(case.attrs), case.opset
    for _ in range(draw(st.integers(1, 3))):
        role = draw(st.sampled_from(sorted(shapes) or ["x"]))
        shape = list(shapes.get(role, ()))
        match draw(
            st.sampled_from(["dim", "insert", "remove", "shape", "dtype", "missing", "extra", "attr", "less", "opset"])
        ):
            case "dim" if shape:
                shape[draw(st.integers(0, len(shape) - 1))] = draw(ODD_DIMS)
                shapes[role] = tuple(shape)
            case "insert":
                shape.insert(draw(st.integers(0, len(shape))), draw(ODD_DIMS))
                shapes[role] = tuple(shape)
            case "remove" if shape:
                del shape[draw(st.integers(0, len(shape) - 1))]
                shapes[role] = tuple(shape)
            case "shape":
                shapes[role] = tuple(draw(st.lists(ODD_DIMS, max_size=6)))
            case "dtype":
                kinds[role] = draw(st.sampled_from([*DTYPES, "float64", "bool", ""]))
            case "missing":
                shapes.pop(role, None), kinds.pop(role, None)
            case "extra":
                role = draw(st.sampled_from(ROLES))
                shapes[role], kinds[role] = (
                    tuple(draw(st.lists(ODD_DIMS, max_size=2))),
                    draw(st.sampled_from(list(DTYPES))),
                )
            case "attr":
                attrs[draw(st.sampled_from(ATTRIBUTES))] = draw(ODD_VALUES)
            case "less" if attrs:
                del attrs[draw(st.sampled_from(sorted(attrs)))]
            case "opset":
                opset = draw(OPSETS)
    for role in shapes.keys() ^ kinds.keys():
        shapes.setdefault(role, ()), kinds.setdefault(role, "int8")
    return Request(case.operator, kinds, shapes, attrs, opset)


SENTENCE = re.compile(r"(?P<name>\w+): [^{}\n]*[^.{}\n]\.")


def assert_sentence(sentence: str) -> None:
    """One line that begins with an operand or attribute, ends with one full stop and shows no machinery."""
    found = SENTENCE.fullmatch(sentence)
    assert found, sentence
    assert found["name"] in {*ROLES, *ATTRIBUTES, "y", "opset"}, sentence
    assert not re.search(r"manifest\.json|Error|Traceback|object at|undefined", sentence), sentence


@given(request=requests())
def test_any_request_gives_a_scope_or_one_sentence(request: Request) -> None:
    op = SHIPPED[request.operator]
    found = scopes.scope_of(op, request)
    if isinstance(found, Refused):
        assert_sentence(found.sentence)
        return
    decisions = line.decide(found, ANY_DEVICE)
    assert len(decisions) == len(op.manifest.variants)
    chosen = selection.selected(decisions)
    if chosen is None:
        assert all(decision.reason for decision in decisions)
    elif _work(found) <= MOST_WORK:
        line.plan(found, chosen, ANY_DEVICE)
        _assert_the_reference_agrees(found)


@pytest.mark.parametrize("op", SHIPPED.values(), ids=SHIPPED)
def test_inferred_types_of_every_case_are_the_reference_s(op: Operator) -> None:
    for case in op.cases:
        scope = scopes.scope_of(op, case.request)
        if isinstance(scope, Scope) and _work(scope) <= MOST_WORK:
            _assert_the_reference_agrees(scope)


def _work(scope: Scope) -> int:
    shapes = [*scope.request.shapes.values(), scope.outputs["y"].shape]
    sizes = [size for shape in shapes for size in (dtypes.numel(shape), *shape)]
    taps = dtypes.numel(scope.request.shapes.get("w", ())[1:])
    return max(*sizes, dtypes.numel(scope.outputs["y"].shape) * max(taps, 1))


def _assert_the_reference_agrees(scope: Scope) -> None:
    """On zeros (ones for scales): only dtype and shape matter."""
    request = scope.request
    inputs = {role: np.ones(request.shapes[role], DTYPES[request.dtypes[role]].numpy) for role in request.dtypes}
    outputs = scope.operator.reference.compute(inputs, request.attrs)
    found = {role: TensorType(dtypes.of_array(array).name, array.shape) for role, array in outputs.items()}
    assert found == scope.outputs
