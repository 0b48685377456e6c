"""A client of the service: connect, submit, wait, read, operate.

What is asked and answered are the messages of the contract; `word` gives an enum's value as files and REST have it.
"""

from optsched.client.client import Client, Given, connect
from optsched.client.settings import PREFIX, Settings
from optsched.client.terminal import Terminal
from optsched.client.words import ENDED, word
from optsched.wire.v1.scheduler_pb2 import JobArray, JobFilter
from optsched.wire.v1.types_pb2 import Job, JobSpec, Node, NodeSpec, Reservation, Team

__all__ = [
    "ENDED",
    "PREFIX",
    "Client",
    "Given",
    "Job",
    "JobArray",
    "JobFilter",
    "JobSpec",
    "Node",
    "NodeSpec",
    "Reservation",
    "Settings",
    "Team",
    "Terminal",
    "connect",
    "word",
]
