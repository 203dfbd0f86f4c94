"""Timings: what kernels take, and what kernel-lab itself takes."""
