"""The references against tests/onnx_cases: ONNX backend-test folders of faults that other implementations once had.

A folder with a file `reject` holds a request that must be refused, which is not a reference's business: these are only
counted. All others are compared to the bit; NaNs are all alike.
"""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "tests" / "onnx_cases").glob("*/model.onnx"))
NUMERIC = [folder for folder in FOLDERS if not (folder / "reject").exists()]
ROLES = {
    "DequantizeLinear": ("x", "x_scale", "x_zero_point"),
    "ConvInteger": ("x", "w", "x_zero_point", "w_zero_point"),
    "QLinearConv": (
        *("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point"),
        "B",
    ),
}


def reference_of(node):
    domain = node.domain or "ai.onnx"
    operator = "com.microsoft.QLinearConv" if node.op_type == "QLinearConv" else f"{domain}.{node.op_type}"
    spec = importlib.util.spec_from_file_location("reference", ROOT / "shaders" / operator / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reference


def request_of(folder):
    """(node, inputs by role, attributes) of a one-node model whose graph inputs are input_0.pb, input_1.pb, ..."""
    model = onnx.load(folder / "model.onnx")
    (node,) = model.graph.node
    arrays = {value.name: tensor(folder, f"input_{i}") for i, value in enumerate(model.graph.input)}
    inputs = {role: arrays[name] for role, name in zip(ROLES[node.op_type], node.input, strict=False) if name}
    attrs = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    return node, inputs, {name: v.decode() if isinstance(v, bytes) else v for name, v in attrs.items()}


def tensor(folder, name):
    proto = onnx.TensorProto.FromString((folder / "test_data_set_0" / f"{name}.pb").read_bytes())
    return onnx.numpy_helper.to_array(proto)


def test_every_folder_is_here():
    assert (len(FOLDERS), len(NUMERIC)) == (83, 78)


@pytest.mark.parametrize("folder", NUMERIC, ids=lambda folder: folder.name)
def test_onnx_case(folder):
    node, inputs, attrs = request_of(folder)
    y, expected = reference_of(node)(inputs, attrs)["y"], tensor(folder, "output_0")
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    bits = f"u{y.dtype.itemsize}"
    same = y.view(bits) == expected.view(bits)
    if "float" in y.dtype.name:
        same |= np.isnan(y.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    assert same.all()
