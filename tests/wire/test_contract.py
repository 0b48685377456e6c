"""The contract: its generated code is up to date, it only ever grows, and it keeps to the house rules."""

from __future__ import annotations

import filecmp
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorSet

from optsched.wire import v1

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("grpc_tools")


@pytest.fixture(scope="module")
def compiler() -> ModuleType:
    spec = importlib.util.spec_from_file_location("service_generate", ROOT / "service" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def now(compiler: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorSet:
    path = tmp_path_factory.mktemp("contract") / "now.binpb"
    compiler.compile_to(path.parent, f"--descriptor_set_out={path}", "--include_source_info")
    return FileDescriptorSet.FromString(path.read_bytes())


def test_the_generated_code_is_that_of_the_contract(compiler: ModuleType, tmp_path: Path) -> None:
    compiler.generate(tmp_path / "v1")
    here = Path(v1.__file__).parent
    names = sorted(path.name for path in (tmp_path / "v1").iterdir())
    assert names == sorted(path.name for path in here.iterdir() if path.is_file()), "run make proto"
    same, differ, missing = filecmp.cmpfiles(here, tmp_path / "v1", names, shallow=False)
    assert (differ, missing) == ([], []), "run make proto"
    assert same


# Compatible evolution


def messages(found: FileDescriptorSet) -> Iterator[tuple[str, DescriptorProto]]:
    def inside(prefix: str, each: DescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
        yield f"{prefix}.{each.name}", each
        for nested in each.nested_type:
            yield from inside(f"{prefix}.{each.name}", nested)

    for file in found.file:
        for message in file.message_type:
            yield from inside(file.package, message)


def enums(found: FileDescriptorSet) -> dict[str, EnumDescriptorProto]:
    return {f"{file.package}.{each.name}": each for file in found.file for each in file.enum_type}


def breaks(before: FileDescriptorSet, after: FileDescriptorSet) -> list[str]:
    """What a client or a server of the contract before would trip over."""
    return [*_message_breaks(before, after), *_enum_breaks(before, after), *_method_breaks(before, after)]


def _message_breaks(before: FileDescriptorSet, after: FileDescriptorSet) -> Iterator[str]:
    there = dict(messages(after))
    for name, old in messages(before):
        new = there.get(name)
        if new is None:
            yield f"{name} is gone"
            continue
        fields = {field.number: field for field in new.field}
        for field in old.field:
            found = fields.get(field.number)
            where = f"{name}.{field.name} = {field.number}"
            if found is None:
                kept = any(each.start <= field.number < each.end for each in new.reserved_range)
                if not kept or field.name not in new.reserved_name:
                    yield f"{where} is gone, and its number and name are not reserved"
                continue
            shape = [(f.name, f.type, f.type_name, f.label, f.proto3_optional) for f in (field, found)]
            # An optional field is its own oneof; only those of choices matter.
            choices = [
                "" if f.proto3_optional or not f.HasField("oneof_index") else m.oneof_decl[f.oneof_index].name
                for f, m in ((field, old), (found, new))
            ]
            if shape[0] != shape[1] or choices[0] != choices[1]:
                yield f"{where} has changed"
        for each in old.reserved_range:
            if any(each.start <= number < each.end for number in fields):
                yield f"{name} takes a reserved number again"


def _enum_breaks(before: FileDescriptorSet, after: FileDescriptorSet) -> Iterator[str]:
    there = enums(after)
    for name, old in enums(before).items():
        values = {value.number: value.name for value in there[name].value} if name in there else {}
        for value in old.value:
            if values.get(value.number) != value.name:
                yield f"{name}.{value.name} = {value.number} is gone"


def _method_breaks(before: FileDescriptorSet, after: FileDescriptorSet) -> Iterator[str]:
    there = {
        f"{file.package}.{service.name}.{method.name}": method
        for file in after.file
        for service in file.service
        for method in service.method
    }
    for file in before.file:
        for service in file.service:
            for method in service.method:
                name = f"{file.package}.{service.name}.{method.name}"
                if there.get(name) != method:
                    yield f"{name} is gone or has changed"


def test_nothing_of_the_released_contract_breaks(compiler: ModuleType, now: FileDescriptorSet) -> None:
    released = FileDescriptorSet.FromString(compiler.BASELINE.read_bytes())
    assert breaks(released, now) == []


def changed(now: FileDescriptorSet) -> FileDescriptorSet:
    copy = FileDescriptorSet()
    copy.CopyFrom(now)
    return copy


def job_spec(found: FileDescriptorSet) -> DescriptorProto:
    return dict(messages(found))["optsched.v1.JobSpec"]


def test_a_field_that_goes_without_a_trace_is_a_break(now: FileDescriptorSet) -> None:
    after = changed(now)
    del job_spec(after).field[3]
    assert breaks(now, after) == ["optsched.v1.JobSpec.gpus = 4 is gone, and its number and name are not reserved"]


def test_a_field_that_goes_and_stays_reserved_is_none(now: FileDescriptorSet) -> None:
    after = changed(now)
    spec = job_spec(after)
    del spec.field[3]
    spec.reserved_range.add(start=4, end=5)
    spec.reserved_name.append("gpus")
    assert breaks(now, after) == []
    spec.field.add(name="other", number=4, type=3, label=1)
    assert "optsched.v1.JobSpec takes a reserved number again" in breaks(after, after)


def test_a_field_of_another_type_is_a_break(now: FileDescriptorSet) -> None:
    after = changed(now)
    job_spec(after).field[3].type = 1
    assert breaks(now, after) == ["optsched.v1.JobSpec.gpus = 4 has changed"]


def test_an_enum_value_that_is_renumbered_is_a_break(now: FileDescriptorSet) -> None:
    after = changed(now)
    enums(after)["optsched.v1.JobState"].value[1].number = 17
    assert breaks(now, after) == ["optsched.v1.JobState.JOB_STATE_QUEUED = 1 is gone"]


def test_a_method_that_answers_otherwise_is_a_break(now: FileDescriptorSet) -> None:
    after = changed(now)
    scheduler = next(file for file in after.file if file.service and file.service[0].name == "Scheduler")
    scheduler.service[0].method[0].server_streaming = True
    assert breaks(now, after) == ["optsched.v1.Scheduler.SubmitJob is gone or has changed"]


# House rules


def test_every_enum_begins_with_unspecified(now: FileDescriptorSet) -> None:
    for name, each in enums(now).items():
        assert each.value[0].number == 0, name
        assert each.value[0].name.endswith("_UNSPECIFIED"), name


def test_every_method_says_what_it_does(now: FileDescriptorSet) -> None:
    for file in now.file:
        told = {tuple(each.path) for each in file.source_code_info.location if each.leading_comments.strip()}
        for s, service in enumerate(file.service):
            for m, method in enumerate(service.method):
                assert (6, s, 2, m) in told, f"{service.name}.{method.name}"


def test_durations_and_instants_are_told_by_their_names(now: FileDescriptorSet) -> None:
    """A number of seconds is a double whose name ends in _s or _at; nothing else is named so."""
    for name, message in messages(now):
        for field in message.field:
            if field.name.endswith(("_s", "_at")):
                assert field.type == field.TYPE_DOUBLE, f"{name}.{field.name}"
