"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal

# Tests start processes while calls are under way; gRPC's handlers of forks are of use to none and get in the way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

# A suite in the background of a shell is told to ignore interrupts, and so would be all processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
