"""kernel-lab: WGSL kernels of quantised ONNX operators, run and judged in a real Chromium's own WebGPU.

`get_kernel` is the one function most programs need; the rest of the package is read best from `kernel_lab.line`.
"""

from kernel_lab.kernels import Kernel, get_kernel

__version__ = "0.1.0"
__all__ = ["Kernel", "__version__", "get_kernel"]
