"""Tests side by side: each process gets one thread, before PyTorch is loaded."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
