"""kernel-lab: WGSL kernels of quantised ONNX operators, run and judged in a real Chromium's own WebGPU.

`get_kernel` is the one function most programs need; the rest of the package is read best from `kernel_lab.line`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_lab.kernels import Kernel, get_kernel

__version__ = "0.1.0"
__all__ = ["Kernel", "__version__", "get_kernel"]


def __getattr__(name: str) -> Any:
    """Kernels are imported when first asked for: with them come Playwright and pydantic, half a second's work."""
    if name in ("Kernel", "get_kernel"):
        from kernel_lab import kernels

        return getattr(kernels, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
