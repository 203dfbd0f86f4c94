"""Cases from ONNX: backend-test folders, and the quantised nodes of whole models with real weights and activations."""

from kernel_lab.errors import LabError

try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
except ImportError as error:
    raise LabError(f"ONNX files need two more packages ({error}): pip install 'kernel-lab[onnx]'.") from None
