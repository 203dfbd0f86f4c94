"""tests/onnx_cases: faults that other implementations once had, as ONNX backend-test folders, on every variant."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from kernel_lab import cli
from kernel_lab.browsing.lab import Lab
from kernel_lab.importing import collecting
from kernel_lab.pytest_plugin import Judge, settle
from kernel_lab.queries import Query
from kernel_lab.runs import Pair

FOLDERS = Path(__file__).parents[1] / "onnx_cases"
REFUSED = {
    "rj01_scale_and_zero_point_shapes": "x_zero_point",
    "rj02_block_dims": "x_scale",
    "rj03_w_scale_length": "w_scale",
    "rj04_negative_output": "y",
    "rj05_group": "w",
}
"""The operand that the sentence names."""


def pairs_of(*paths: Path) -> list[Pair]:
    return list(collecting.pairs(collecting.collect(paths).cases, [Query()], every_variant=True))


def parameter(pair: Pair) -> object:
    return pytest.param(pair, id=pair.query, marks=pytest.mark.xdist_group(f"{pair.operator.id}:{pair.variant}"))


PAIRS = pairs_of(FOLDERS)


def test_every_folder_is_here() -> None:
    assert len({pair.case.query for pair in PAIRS if pair.variant}) == 78
    assert {pair.case.name for pair in PAIRS if not pair.variant} == set(REFUSED)


@pytest.mark.parametrize("pair", [parameter(pair) for pair in PAIRS if pair.variant])
def test_onnx_case(pair: Pair, lab_judge: Judge) -> None:
    """The output is the folder's output_0.pb, to the bit."""
    settle(lab_judge(pair))


@pytest.mark.parametrize("pair", [parameter(pair) for pair in PAIRS if not pair.variant])
def test_refusal(pair: Pair, lab_judge: Judge) -> None:
    verdict = lab_judge(pair)
    settle(verdict)
    assert verdict.summary.startswith(f"refused, as it must be: {REFUSED[pair.case.name]}: "), verdict.summary


def dequantize_folder(folder: Path, x: np.ndarray, scale: float, zero_point: int, y: np.ndarray) -> Path:
    """A backend test of a per-tensor DequantizeLinear from uint8 to float32."""
    operands = (x, np.asarray(scale, np.float32), np.asarray(zero_point, np.uint8))
    types = (TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8)
    names = ("x", "x_scale", "x_zero_point")
    infos = [helper.make_tensor_value_info(n, t, a.shape) for n, t, a in zip(names, types, operands, strict=True)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, y.shape)
    graph = helper.make_graph([helper.make_node("DequantizeLinear", names, ["y"])], "test", infos, [output])
    (folder / "test_data_set_0").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), folder / "model.onnx")
    for file, array in (*((f"input_{i}", a) for i, a in enumerate(operands)), ("output_0", y)):
        (folder / "test_data_set_0" / f"{file}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    return folder


def test_dq28_65536_groups(tmp_path: Path, lab_judge: Judge) -> None:
    """One element more than 65,535 workgroups of 64 take: grids that are not folded leave the rest unwritten."""
    x = ((11 + 37 * np.arange(4_194_241)) % 251).astype(np.uint8)
    y = (x.astype(np.float32) - 100) * np.float32(0.5)
    assert y[:4].tolist() == [-44.5, -26, -7.5, 11]
    for pair in pairs_of(dequantize_folder(tmp_path / "dq28_65536_groups", x, 0.5, 100, y)):
        settle(lab_judge(pair))


def test_a_wrong_output_file_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
    lab: Lab,
) -> None:
    """The whole command: exit code, who says what is right, the line that repeats the case, the line at the end."""
    monkeypatch.setenv("KERNEL_LAB_CACHE", str(tmp_path / "cache"))
    wrong = dequantize_folder(tmp_path / "wrong one", np.uint8([1, 2, 3]), 2, 1, np.float32([0, 2, 5]))
    right = FOLDERS / "dq01_u8_below_zp"
    browser = pytestconfig.getoption("--lab-browser")
    arguments = ["onnx", str(wrong), str(right), "--case", "DequantizeLinear", "--browser", browser]
    assert cli.app(arguments, standalone_mode=False) == 1
    said = capsys.readouterr().out
    assert "y: 1 of 3 elements differ; first at [2]" in said
    assert "expected  from test_data_set_0/output_0.pb" in said
    assert f"repeat    kernel-lab onnx '{wrong}' --case ai.onnx.DequantizeLinear:wrong_one:" in said
    assert said.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
