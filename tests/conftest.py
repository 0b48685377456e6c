"""Settings of the whole suite."""

from __future__ import annotations

import os

# Tests start processes while calls are under way; gRPC's handlers of forks are of use to none and get in the way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
