"""What runs on a node: it sets GPUs aside, starts tasks, stops them, and says what became of them.

A pure core decides (`core.step`: state and message in, state and actions out); around it a thin shell holds the stream
with the scheduler, the disk, and one keeper process for each run.
"""
