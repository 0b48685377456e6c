"""Frozen values: what a cluster, a job, a team, a profile, a snapshot and a plan are.

No behaviour beyond their own invariants, and no knowledge of files, solvers or clocks.
"""
