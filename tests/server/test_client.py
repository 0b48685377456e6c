"""A client that the stock compiler makes from the contract, in a process that knows nothing of optsched."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

import pytest

from tests.server.service import Served, served

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("grpc_tools")

CLIENT = """
import sys
import grpc
from optsched.v1 import cluster_pb2, cluster_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2

with grpc.insecure_channel(sys.argv[1]) as channel:
    scheduler = scheduler_pb2_grpc.SchedulerStub(channel)
    job = types_pb2.JobSpec(id="train", gpus=16, priority_class="P1", slices=[types_pb2.Slice(gpus=8, within="node")])
    scheduler.SubmitJob(scheduler_pb2.SubmitJobRequest(job=job))
    found = scheduler.GetJob(scheduler_pb2.GetJobRequest(id="train"))
    print(found.id, types_pb2.JobState.Name(found.state), found.spec.slices[0].gpus)
    print(cluster_pb2_grpc.ClusterStub(channel).GetStatus(cluster_pb2.GetStatusRequest()).epoch)
    try:
        scheduler.SubmitJob(scheduler_pb2.SubmitJobRequest(job=types_pb2.JobSpec(gpus=-1)))
    except grpc.RpcError as error:
        print(error.code().name)
"""


def generated(folder: Path) -> None:
    """Compile the contract as any user would; packages in Python need their marks."""
    common = str(resources.files("grpc_tools") / "_proto")
    proto = ROOT / "service" / "proto"
    names = [str(path.relative_to(proto)) for path in sorted(proto.rglob("*.proto"))]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{proto}", f"-I{common}"]
    subprocess.run([*command, f"--python_out={folder}", f"--grpc_python_out={folder}", *names], check=True)
    for package in (folder / "optsched", folder / "optsched" / "v1"):
        (package / "__init__.py").touch()


@served()
async def test_a_client_of_the_stock_compiler_is_served(it: Served) -> None:
    def run() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            generated(Path(folder))
            command = [sys.executable, "-c", CLIENT, it.service.grpc_address]
            done = subprocess.run(
                command, cwd=folder, env={"PYTHONPATH": folder}, capture_output=True, text=True, check=True
            )
            return done.stdout.splitlines()

    lines = await asyncio.to_thread(run)
    assert lines == ["train JOB_STATE_QUEUED 8", str(it.state.epoch), "INVALID_ARGUMENT"]
