"""A file of questions: what it may ask, and a line for everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import InputError
from optsched.whatif import changes as ch
from optsched.whatif.scenarios import Questions, read_questions
from tests.whatif.lab import lab

RIGHT = """\
ask: [eval]
jobs:
  - {id: next, team: language, gpus: 16, priority: P1, topology: {required: rack}}
scenarios:
  - name: another rack
    add: [{like: r1}, {nodes: 1, within: r0}]
  - name: maintenance
    drain: [{target: r0, from_s: 3600, to_s: 7200}, {target: r1n1}]
    failures: {factor: 2}
  - name: other shares
    quota: {vision: 24}
    weight: {vision: 2}
    profile: {base: quota, min_runtime_s: 0}
    remove: [r1n1]
"""

WRONG = """\
ask: [evil]
scenarios:
  - name: one
    remove: [r9]
    quota: {visoin: 3, vision: -1}
  - name: two
    drain: [{target: r0, from_s: 5}]
    add: [{like: r0, nodes: 3}]
    failures: {rates: lama3}
  - name: two
    weight: {nobody: 1}
  - name: three
    fire: [r0]
"""


def read(tmp_path: Path, text: str) -> Questions:
    path = tmp_path / "questions.yaml"
    path.write_text(text)
    return read_questions(path, lab())


def test_scenarios_are_read_with_all_their_changes(tmp_path: Path) -> None:
    found = read(tmp_path, RIGHT)
    assert (found.ask, [job.id for job in found.jobs]) == (("eval",), ["next"])
    one, two, three = found.scenarios
    assert one.changes == (ch.AddLike("r1"), ch.AddNodes(1, "r0"))
    assert two.changes == (ch.Drain("r0", 3600, 7200), ch.Drain("r1n1"))
    assert two.failures == ch.FailureRates("llama3", 2.0)
    profile, *others = three.changes
    assert isinstance(profile, ch.UseProfile)
    assert profile.profile.min_runtime_s == 0
    assert others == [ch.Remove("r1n1"), ch.SetQuota("vision", 24), ch.SetWeight("vision", 2.0)]


def test_every_fault_has_a_line_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, WRONG)
    told = [str(fault).split("questions.yaml:")[1] for fault in caught.value.faults]
    starts = [
        "1: ask[0]: no queued job is called 'evil'; allowed: did you mean 'eval'?",
        "5: scenarios[0].quota.vision: given -1; allowed: ",
        "7: scenarios[1].drain[0]: given one of from_s and to_s; allowed: both of them, or none",
        "8: scenarios[1].add[0]: given both or none of nodes and like; allowed: one of them",
        "9: scenarios[1].failures.rates: given 'lama3'; allowed: did you mean 'llama3'?",
        "10: scenarios[2].name: the name 'two' is given twice; allowed: each name once",
        "11: scenarios[2].weight.nobody: no team is called 'nobody'; allowed: ",
        "13: scenarios[3].fire: unknown key 'fire'; allowed: ",
    ]
    assert len(told) == len(starts), told
    for line, start in zip(told, starts, strict=True):
        assert line.startswith(start), line


def test_a_job_of_a_file_is_checked_as_those_of_snapshots_are(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "jobs:\n  - {id: eval, team: language, gpus: 8}\n  - {id: big, team: art, gpus: 0}\n")
    told = "\n".join(map(str, caught.value.faults))
    assert "jobs[0] (eval).id: a job is called 'eval' already" in told
    assert "jobs[1] (big).gpus: given 0" in told


def test_a_file_that_asks_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="asks nothing"):
        read(tmp_path, "ask: []\n")
