"""Files as such: kinds, encodings, sizes and syntax. Each way to fail is one clear fault, never a crash."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.errors import Fault, InputError
from optsched.files import load_scenario, load_snapshot, reading
from optsched.files.yamltext import parse_yaml

GOOD = "now: 5\ncluster: {nodes: [{id: n, gpus: 8}]}\nteams: [{id: t}]\n"


@pytest.fixture
def refused(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Write a file and return all faults of it."""

    def write_and_load(content: str | bytes, name: str = "a.yaml") -> list[Fault]:
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(InputError) as caught:
            load_snapshot(file)
        return list(caught.value.faults)

    return write_and_load


def test_yaml_json_and_gzip_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    as_json = json.dumps({"now": 5, "cluster": {"nodes": [{"id": "n", "gpus": 8}]}, "teams": [{"id": "t"}]})
    flow = "{now: 5, cluster: {nodes: [{id: n, gpus: 8}]}, teams: [{id: t}]}"
    contents = [
        GOOD.encode(),
        as_json.encode(),
        flow.encode(),
        b"\xef\xbb\xbf" + as_json.encode(),
        GOOD.replace("\n", "\r\n").encode(),
    ]
    for content in contents:
        for packed in (content, gzip.compress(content)):
            file = tmp_path / "file.txt"
            file.write_bytes(packed)
            assert load_snapshot(file)[0].now == 5


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(GOOD.encode()))))
    assert load_scenario("-")[0].start.now == 5


def test_a_missing_file_a_folder_and_an_empty_file_are_refused(tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    for path, wrong in ((tmp_path / "none.yaml", "there is no such file"), (tmp_path, "this is a folder")):
        with pytest.raises(InputError) as caught:
            load_snapshot(path)
        assert [fault.wrong for fault in caught.value.faults] == [wrong]
    assert refused(" \n")[0].wrong == "the file is empty"


def test_faults_of_yaml_have_the_line_of_the_key(refused) -> None:  # type: ignore[no-untyped-def]
    text = GOOD + "jobs:\n  - id: a\n    team: t\n    gpus: 0\n  - id: b\n    gpus: 8\n    gpuz: 1\n"
    assert [(fault.line, fault.field) for fault in refused(text)] == [
        (7, "jobs[0] (a).gpus"),
        (8, "jobs[1] (b).team"),
        (10, "jobs[1] (b).gpuz"),
    ]


def test_faults_of_json_have_path_and_line_too(refused) -> None:  # type: ignore[no-untyped-def]
    text = '{"now": 0,\n "cluster": {"nodes": []},\n "teams": [{"id": "t",\n "weight": NaN}]}'
    (fault,) = refused(text)
    assert (fault.line, fault.field, fault.wrong) == (4, "teams[0] (t).weight", "given NaN")


def test_a_syntax_error_is_one_fault_with_line_and_column(refused) -> None:  # type: ignore[no-untyped-def]
    (fault,) = refused("now: 0\njobs: [a, b\nx: }\n")
    assert (fault.line, fault.field) == (3, "column 2")
    (fault,) = refused('{"now": 0,\n "jobs": [1,2')
    assert (fault.line, fault.field, fault.wrong) == (2, "column 14", "not valid JSON: Expecting ',' delimiter")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "a: " + "[" * 100_000,
        "- " * 100_000,
        "\n".join(" " * i + "a:" for i in range(2000)),
    ],
)
def test_a_hundred_thousand_nested_lists_are_one_fault(text: str, refused) -> None:  # type: ignore[no-untyped-def]
    (fault,) = refused(text)
    assert "nested too deep" in fault.wrong or "maximum nesting depth" in fault.wrong


def test_an_alias_bomb_is_one_fault(refused) -> None:  # type: ignore[no-untyped-def]
    lines = ["a: &a [" + ",".join("x" * 9) + "]"]
    lines += [
        f"{new}: &{new} [" + ",".join([f"*{old}"] * 9) + "]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    (fault,) = refused("\n".join(lines))
    assert (fault.line, fault.wrong) == (7, "aliases repeat too much")
    assert refused("a: &a [*a]")[0].wrong == "the alias *a names nothing that is complete above it"


def test_a_gzip_bomb_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch, refused) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(reading, "MAX_BYTES", 1000)
    (fault,) = refused(gzip.compress(b" " * 500_000))
    assert fault.wrong == "the file is too large once unpacked"
    (fault,) = refused(b" " * 1001)
    assert fault.wrong == "the file is too large"
    assert "at most 512 MB unpacked" in fault.allowed


def test_a_gzip_file_cut_short_and_text_that_is_not_utf8_are_refused(refused) -> None:  # type: ignore[no-untyped-def]
    assert refused(gzip.compress(GOOD.encode())[:-4])[0].wrong.startswith("the gzip data is damaged or cut short")
    (fault,) = refused(b"now: 0\nabout: caf\xe9\n")
    assert (fault.line, fault.wrong) == (2, "byte 17 is not UTF-8 text")
    (fault,) = refused(b'now: 0\nabout: "\x01"\n')
    assert (fault.line, fault.allowed) == (2, "printable text")


def test_a_key_given_twice_is_refused_in_yaml_and_in_json(refused) -> None:  # type: ignore[no-untyped-def]
    (fault,) = refused(GOOD + "now: 7\n")
    assert (fault.line, fault.field, fault.wrong) == (4, "now", "the key is given twice in one mapping")
    text = '{"now": 0, "cluster": {"nodes": [{"id": "n", "gpus": 8, "gpus": 4}]}}'
    assert [fault.field for fault in refused(text)] == ["cluster.nodes[0] (n).gpus"]


def test_a_second_document_a_tag_and_a_list_as_key_are_refused(refused) -> None:  # type: ignore[no-untyped-def]
    assert refused("now: 0\n---\nnow: 1\n")[0].wrong == "a second document starts here"
    assert "is not supported" in refused("now: !!python/object:os.system 0\n")[0].wrong
    assert refused("? [a, b]\n: 1\n")[0].wrong == "a list or a mapping stands where a key is expected"


def test_numbers_with_thousands_of_digits_are_refused(refused) -> None:  # type: ignore[no-untyped-def]
    assert refused('{"now": ' + "9" * 5000 + "}")[0].wrong == "a number has too many digits"
    assert refused("now: " + "9" * 5000 + "\ncluster: {nodes: []}")[0].wrong.startswith("given '999")
    assert (
        refused("now: " + "9" * 3000 + "\ncluster: {nodes: []}")[0].wrong == "given a number of more than 1,000 digits"
    )


def test_yaml_is_read_by_the_rules_of_1_2() -> None:
    text = "[yes, on, 4:00, 010, 0x10, 1e3, 1_000, 2024-01-01, ~, null, true, .5, 'true', -7]"
    assert parse_yaml(text)[0] == [
        "yes",
        "on",
        "4:00",
        10,
        16,
        1000.0,
        "1_000",
        "2024-01-01",
        None,
        None,
        True,
        0.5,
        "true",
        -7,
    ]


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: [*a]\n"
    assert parse_yaml(text)[0] == {"a": {"x": 1, "y": 2}, "b": {"y": 3, "x": 1}, "c": [{"x": 1, "y": 2}]}


def test_instants_are_all_numbers_or_all_rfc_3339(refused, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    text = (
        "now: 2026-03-01T08:00:00Z\ncluster: {nodes: [{id: n, gpus: 8}]}\nteams: [{id: t}]\n"
        "jobs:\n- {id: a, team: t, gpus: 1, submitted_at: 2026-03-01T08:30:00+01:00}\n"
    )
    (tmp_path / "good.yaml").write_text(text)
    snapshot = load_snapshot(tmp_path / "good.yaml")[0]
    assert snapshot.now - snapshot.jobs[0].submitted_at == 1800
    (fault,) = refused(text + "- {id: b, team: t, gpus: 1, submitted_at: 5}\n")
    assert (fault.line, fault.wrong) == (6, "a number, while now is RFC 3339")
    (fault,) = refused(text.replace("03-01T08:30", "02-30T08:30"))
    assert fault.allowed == "a date and time that exist"
    (fault,) = refused(text.replace("now: 2026-03-01T08:00:00Z\n", "").replace("2026", "1960"))
    assert fault.field == "now"


def test_paths_in_a_file_start_at_its_folder(tmp_path: Path, refused) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mine.yaml").write_text("base: default\nhorizon_s: 60\n")
    (tmp_path / "site.yaml").write_text("levels: [rack]\ngroups: [{counts: {rack: 2, node: 2}, gpus: 4}]\n")
    (tmp_path / "a.yaml").write_text("profile: mine.yaml\ncluster: ./site.yaml\n")
    snapshot = load_snapshot(tmp_path / "a.yaml")[0]
    assert (snapshot.profile.horizon_s, snapshot.profile.name, snapshot.cluster.name) == (60, "mine", "site")
    assert [node.id for node in snapshot.cluster.nodes] == ["r0n0", "r0n1", "r1n0", "r1n1"]
    (tmp_path / "mine.yaml").write_text("base: default\nhorizon_s: -1\n")
    (fault,) = refused("profile: mine.yaml\ncluster: ./site.yaml\n", "b.yaml")
    assert (Path(fault.file).name, fault.line, fault.field) == ("mine.yaml", 2, "horizon_s")
    (fault,) = refused("profile: gone.yaml\ncluster: ./site.yaml\n")
    assert (fault.field, fault.wrong) == ("profile", "there is no file 'gone.yaml'")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_loader(content: bytes) -> None:
    stream = io.TextIOWrapper(io.BytesIO(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stream)
        try:
            load_scenario("-")
        except InputError as error:
            assert error.faults  # noqa: PT017


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "gpus", "team", "nodes", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["now", "profile", "cluster", "teams", "jobs", "reservations", "events", "x"]),
        _json,
        max_size=6,
    )
)
def test_no_data_crashes_the_loader(content: dict[str, object]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(json.dumps(content).encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stream)
        try:
            load_scenario("-")
        except InputError as error:
            assert error.faults  # noqa: PT017
