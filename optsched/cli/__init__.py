"""The command line: one module per group of commands, rendering apart.

entry            where the process begins, before all that is imported
main             the commands, exit codes, errors to lines
plan, explain, topology, profile   what each command does with files
submit, jobs, logs, attach, nodes, teams, reserve, rounds, watch   what is asked of a running service
service          how that is reached, and what its answers are printed as
submit_asked     a job from flags and files, and its faults where they stand
session          this terminal joined with one inside a job
inputs, options  what commands have in common: reading, and arguments
facts            what a plan means for its snapshot: counts before and after, room, spans
places, words    node lists, durations and amounts as people write them
render_*         values to text or JSON; they print nothing
tables           columns that fit a width
terminal         colour, width, progress, output

Commands import what is heavy (loaders, solver) only when they run, so that help and refusals are quick.
"""

import os

# What gRPC's own library has to say of a connection is told in a line of ours. It reads this once, when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# Processes are started, never forked to go on with calls: handlers of forks only get in the way.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
