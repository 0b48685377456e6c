"""The pages about commands and front ends: their programs are run against a service with an agent; tables are whole."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from optsched.cli.main import parser
from optsched.client import JobSpec, Settings
from optsched.server.grpc_api import SERVICES
from tests.docs.pages import ROOT, blocks, files, first_cells
from tests.server.threaded import Threaded, threaded

COMMANDS, INTEGRATE = ROOT / "docs" / "commands.md", ROOT / "docs" / "integrate.md"
CALLERS = [
    "submit",
    "jobs",
    "job",
    "explain",
    "logs",
    "attach",
    "watch",
    "preempt",
    "cancel",
    "hold",
    "release",
    "status",
    "nodes",
    "cordon",
    "uncordon",
    "drain",
    "fence",
    "teams",
    "reserve",
    "rounds",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(tmp_path_factory.mktemp("here"), "n1", "n2") as made:
        yield made


def program(page: Path, name: str, here: Threaded) -> str:
    """A block of a page, with the addresses of here."""
    text = files(page)[name].replace("127.0.0.1:7440", here.it.service.grpc_address)
    return text.replace("127.0.0.1:7441", here.it.service.rest_address)


def shell(script: str, folder: Path, here: Threaded) -> str:
    """What a shell prints, with this checkout's command on its path."""
    command = folder / "bin" / "optsched"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m optsched.cli "$@"\n')
    command.chmod(0o755)
    whole = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "OPTSCHED_CLIENT_SCHEDULER": here.address,
    }
    whole.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=whole,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Commands


def test_the_settings_are_found_where_the_page_puts_them(here: Threaded, tmp_path: Path) -> None:
    said = shell("unset OPTSCHED_CLIENT_SCHEDULER\n" + program(COMMANDS, "config", here), tmp_path, here)
    assert "2 nodes, 2 with an agent" in said


def test_a_job_is_submitted_waited_for_and_read(here: Threaded, tmp_path: Path) -> None:
    said = shell(program(COMMANDS, "job", here), tmp_path, here)
    assert said.startswith("hello\nhello · completed · 1 GPU · ")
    assert said.endswith("\nhello from hello\n")


def test_a_job_of_a_file_is_listed_explained_and_withdrawn(here: Threaded, tmp_path: Path) -> None:
    (tmp_path / "night.yaml").write_text(files(COMMANDS)["night.yaml"])
    said = shell(program(COMMANDS, "night", here), tmp_path, here)
    assert said.startswith("night\njob ")
    assert "night · team default · priority P2 · 2 GPUs · " in said
    assert said.endswith("night\nnight\n")


def test_a_program_is_run_inside_a_job(here: Threaded, tmp_path: Path) -> None:
    said = shell(program(COMMANDS, "attach", here), tmp_path, here)
    assert "this is bench\n" in said


def test_the_tables_have_every_setting_and_every_command() -> None:
    text = COMMANDS.read_text(encoding="utf-8")
    for key, field in Settings.model_fields.items():
        default = f"{field.default:g}" if isinstance(field.default, float) else field.default
        cell = "" if default is None else f"`{default}`"
        assert f"| `{key}` | {cell} | {field.description} |" in text, key
    assert first_cells(COMMANDS, "Where the service is") == list(Settings.model_fields)
    assert first_cells(COMMANDS, "All commands") == CALLERS


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (inner,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(inner.choices)


def test_every_command_of_the_service_is_told_of() -> None:
    """Those whose arguments say how it is reached."""
    asking = {name for name, each in subcommands().items() if "--patience-s" in each.format_help()}
    assert asking == set(CALLERS)


@pytest.mark.parametrize("page", [ROOT / "README.md", COMMANDS], ids=lambda page: page.name)
def test_a_line_for_a_shell_is_a_command_that_there_is(page: Path) -> None:
    """Its flags are known, and their values right."""
    for block in blocks(page):
        if block.language not in ("sh", "bash"):
            continue
        for line in block.lines:
            words = shlex.split(line.split("|")[0] if "'" not in line else line, comments=True)
            if words[:1] == ["optsched"] and words[1:]:
                parser().parse_args(words[1:])


# Front ends


def python(name: str, folder: Path, here: Threaded) -> list[str]:
    script = program(INTEGRATE, name, here)
    assert len([line for line in script.splitlines() if line]) <= 10
    whole = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    done = subprocess.run([sys.executable, "-c", script], env=whole, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_front_end_submits_waits_reads_and_is_told_of_faults(here: Threaded, tmp_path: Path) -> None:
    first, *faults = python("front_end.py", tmp_path, here)
    assert re.fullmatch(r"job-\S+ completed hello", first)
    assert faults[0] == "request: job.gpus: 12 is not a multiple of gpus_per_node 8; allowed: a multiple of 8"


def test_the_watch_tells_how_things_stand(here: Threaded, tmp_path: Path) -> None:
    with here.client() as client:
        client.submit(JobSpec(id="seen", gpus=900))
    assert any(line.startswith("seen queued") for line in python("watching.py", tmp_path, here))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_calls_with_curl_do_what_the_page_says(here: Threaded, tmp_path: Path) -> None:
    """Each answers a JSON object; the first acknowledges the job, the last withdraws it."""
    script = program(INTEGRATE, "curl", here).replace("curl -s", "curl -s --noproxy '*' -w '\\n'")
    submitted, job, why, cancelled = map(json.loads, shell(script, tmp_path, here).splitlines())
    assert (submitted["job_id"], submitted["state"]) == ("pretrain-7", "queued")
    assert job["gang_size"] == 512
    assert job["spec"]["topology"] == {"preferred": "node"} or job["spec"]["slices"]
    assert why["waits"]["detail"]
    assert cancelled["state"] == "cancelled"


GRPCURL = re.compile(r"^grpcurl -plaintext -d '(?P<body>[^']+)' 127\.0\.0\.1:7440 (?P<service>\S+)/(?P<method>\S+)$")


def test_the_requests_for_grpcurl_are_of_the_contract_and_are_answered(here: Threaded) -> None:
    """Each body is read as grpcurl reads it, by the method's description, and sent to the method that it names."""
    lines = files(INTEGRATE)["grpcurl"].replace("\\\n  ", "").splitlines()
    states = []
    with grpc.insecure_channel(here.address) as channel:
        for line in lines:
            match = GRPCURL.match(line)
            assert match is not None, line
            service = next(each for each in SERVICES if each.full_name == match["service"])
            method = service.methods_by_name[match["method"]]
            request = json_format.Parse(match["body"], GetMessageClass(method.input_type)())
            call = channel.unary_unary(
                f"/{service.full_name}/{method.name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            states.append(json_format.MessageToDict(call(request), preserving_proto_field_name=True))
    assert states[0]["job_id"] == "grpc-1"
    assert states[1]["id"] == "grpc-1"
    assert states[2]["total"] == "1"
    assert states[3]["state"] in ("JOB_STATE_CANCELLED", "JOB_STATE_PREEMPTING")


@pytest.mark.skipif(shutil.which("grpcurl") is None, reason="grpcurl is not installed")
def test_grpcurl_itself_makes_those_calls(here: Threaded, tmp_path: Path) -> None:
    script = program(INTEGRATE, "grpcurl", here).replace("grpc-1", "grpc-2").replace("night-19", "night-20")
    said = shell(script, tmp_path, here)
    assert said.count('"grpc-2"') >= 4
    assert "JOB_STATE_CANCELLED" in said or "JOB_STATE_PREEMPTING" in said


def test_no_block_is_left_that_nothing_runs() -> None:
    named = {
        page.name: {each.file for each in blocks(page) if each.language in ("bash", "python", "yaml")}
        for page in (COMMANDS, INTEGRATE)
    }
    assert named == {
        "commands.md": {"config", "job", "night.yaml", "night", "attach"},
        "integrate.md": {"front_end.py", "watching.py", "curl", "grpcurl"},
    }
