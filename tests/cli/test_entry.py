"""How the process begins and ends: interrupts at any moment, and streams that are closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sessions import PATIENCE_S, ROOT, living, started, wait_for_workers, wait_until_gone

SIMULATE = ("simulate", "--policy", "greedy,easy-backfill", "--jobs", "2")
WHATIF = ("whatif", "--gpus", "64", "--team", "11cb48", "--jobs", "2")

INTERRUPTED_AT_IMPORT = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, *rest):
        if name == "optsched.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from optsched.cli.entry import main
sys.argv[1:] = ["--version"]
sys.exit(main())
"""


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=env, check=False, timeout=PATIENCE_S
    )


@pytest.mark.parametrize("words", [SIMULATE, WHATIF], ids=["simulate", "whatif"])
def test_an_interrupt_ends_all_processes_while_some_still_import(words: tuple[str, ...]) -> None:
    with started("-m", "optsched.cli", *words) as program:
        wait_for_workers(program, 2)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(PATIENCE_S) == 130
        wait_until_gone(program.pid)
        out, err = program.communicate()
    assert out == ""
    assert all(line.startswith("warning: ") for line in err.splitlines()), err


def test_no_process_outlives_a_command_that_is_terminated() -> None:
    with started("-m", "optsched.cli", *SIMULATE) as program:
        wait_for_workers(program, 2)
        program.terminate()
        assert program.wait(PATIENCE_S) == -signal.SIGTERM
        wait_until_gone(program.pid)
        assert program.communicate() == ("", "")


def test_a_process_that_dies_is_a_line() -> None:
    with started("-m", "optsched.cli", *SIMULATE) as program:
        wait_for_workers(program, 2)
        worker = next(number for number, words in living(program.pid).items() if "spawn_main" in words)
        os.kill(worker, signal.SIGKILL)
        out, err = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, out, err) == (1, "", "optsched: failed: a process ended with code -9\n")


def test_an_interrupt_while_the_command_line_is_imported_is_quiet() -> None:
    done = ended("-c", INTERRUPTED_AT_IMPORT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupts_that_are_ignored_stay_ignored() -> None:
    done = ended("-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED_AT_IMPORT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "optsched 0.1.0\n", "")


@pytest.mark.parametrize("words", ["trace describe", "checkpoint-interval --gpus 8 --preset rsc1 --cost-s 1"])
def test_a_closed_stream_is_as_one_that_goes_nowhere(words: str) -> None:
    command = f"{sys.executable} -m optsched.cli {words}"
    assert shell(f"{command} <&- 2>&-") == shell(command)
    assert shell(f"{command} >&-") == shell(f"{command} <&- >&-") == ""


def shell(command: str) -> str:
    """Return what a command writes to standard output; it writes nothing else, and ends well."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=env, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_processes_work_where_all_streams_are_closed(tmp_path: Path) -> None:
    trace, cluster, page = (tmp_path / name for name in ("trace.csv", "small.yaml", "page.html"))
    trace.write_text("job_id,submit_s,duration_s,gpus,status,team\na,0,600,4,completed,t\nb,60,900,8,completed,t\n")
    cluster.write_text("{name: small, levels: [rack], groups: [{counts: {rack: 1, node: 2}, gpus: 4}]}")
    words = f"simulate {trace} --cluster {cluster} --policy greedy,easy-backfill --jobs 2 --html {page}"
    assert shell(f"{sys.executable} -m optsched.cli {words} <&- >&- 2>&-") == ""
    assert "easy-backfill" in page.read_text()
