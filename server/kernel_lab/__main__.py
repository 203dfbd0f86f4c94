"""`python -m kernel_lab` is the command `kernel-lab`."""

from kernel_lab.cli import main

main()
