"""Distinct types for names, so that a job is never passed where a node is meant."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
TeamId = NewType("TeamId", str)
UserId = NewType("UserId", str)
ReservationId = NewType("ReservationId", str)
GpuType = NewType("GpuType", str)
LevelName = NewType("LevelName", str)

NODE_LEVEL = LevelName("node")
"""The last, implicit level of every cluster."""

ANY_TYPE = GpuType("")
"""The type of a node that names none."""
