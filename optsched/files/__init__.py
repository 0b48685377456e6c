"""Files that a user writes and reads: parse, check, and say every fault with file, line and field."""

from __future__ import annotations

from optsched.files.clusters import load_cluster
from optsched.files.datafolders import data_folder, shipped_file, shipped_names
from optsched.files.dump import event_to_dict, scenario_to_dict, snapshot_to_dict
from optsched.files.profiles import load_profile
from optsched.files.snapshots import load_scenario, load_snapshot, parse_scenario, parse_snapshot

__all__ = [
    "data_folder",
    "event_to_dict",
    "load_cluster",
    "load_profile",
    "load_scenario",
    "load_snapshot",
    "parse_scenario",
    "parse_snapshot",
    "scenario_to_dict",
    "shipped_file",
    "shipped_names",
    "snapshot_to_dict",
]
