"""Nothing to configure: kernel-lab's options and fixtures come from its pytest plugin (kernel_lab.pytest_plugin)."""
