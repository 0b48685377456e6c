"""Traces of jobs in the formats in which they were published, and the normal form that all of them become."""

from __future__ import annotations

from optsched.files.traces.formats import FORMATS
from optsched.files.traces.load import check_format, load_trace, parse_trace
from optsched.files.traces.nodes import node_format, read_nodes
from optsched.files.traces.normal import to_csv, to_json
from optsched.files.traces.source import Options, Source, read_source

__all__ = [
    "FORMATS",
    "Options",
    "Source",
    "check_format",
    "load_trace",
    "node_format",
    "parse_trace",
    "read_nodes",
    "read_source",
    "to_csv",
    "to_json",
]
