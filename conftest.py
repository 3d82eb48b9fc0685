"""Tests side by side: each process gets one thread, before PyTorch is loaded; Ctrl-C is heard."""

import os
import signal

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell in the background passes that on to all processes
    signal.signal(signal.SIGINT, signal.default_int_handler)
