"""Every built-in case, on every variant that can compute it, in a real browser: the test that the project is about."""

from kernel_lab.pytest_plugin import Judge, settle
from kernel_lab.runs import Pair


def test_kernel(kernel_pair: Pair, lab_judge: Judge) -> None:
    """The outputs equal the reference's to the bit; what must be refused is refused."""
    settle(lab_judge(kernel_pair))
