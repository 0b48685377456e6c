"""Logs that nobody reads any more."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def forget_old_logs(folder: Path, kept: Collection[Path], before: float) -> int:
    """Remove the logs of runs in which nothing was written since an instant, but for `kept`; return how many."""
    removed = 0
    for run in list(folder.glob("*/*")):
        if run in kept:
            continue
        with suppress(OSError):
            newest = max((each.stat().st_mtime for each in (run, *run.iterdir())), default=0.0)
            if newest < before:
                shutil.rmtree(run)
                removed += 1
    for job in list(folder.iterdir()):
        with suppress(OSError):
            job.rmdir()
    return removed
