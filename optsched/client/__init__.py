"""A client of the service: connect, submit, wait, read, operate.

What is asked and answered are the messages of the contract; `word` gives an enum's value as files and REST have it.
"""

from optsched.client.client import Client, Given, connect
from optsched.client.settings import PREFIX, Settings
from optsched.client.terminal import Terminal
from optsched.client.words import ENDED, word
from optsched.errors import Away, Conflict, InputError, NoAnswer, NotAllowed, NotKnown, OptschedError, TooSlow
from optsched.wire.v1.scheduler_pb2 import JobArray, JobFilter
from optsched.wire.v1.types_pb2 import Job, JobSpec, Node, NodeSpec, Reservation, Team

__all__ = [
    "ENDED",
    "PREFIX",
    "Away",
    "Client",
    "Conflict",
    "Given",
    "InputError",
    "Job",
    "JobArray",
    "JobFilter",
    "JobSpec",
    "NoAnswer",
    "Node",
    "NodeSpec",
    "NotAllowed",
    "NotKnown",
    "OptschedError",
    "Reservation",
    "Settings",
    "Team",
    "Terminal",
    "TooSlow",
    "connect",
    "word",
]
