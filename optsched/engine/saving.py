"""Saving states one after the other: what of a state has not changed since the last time is not written anew."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from optsched.engine.codec import FORMAT, given_fields, text_of
from optsched.engine.records import Records
from optsched.engine.state import State

Chunk = Mapping[object, object]


class Saver:
    """Writes states as `save_bytes` does, to the last byte, and remembers the text of each chunk of their records."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Chunk, str]] = {}

    def bytes_of(self, given: State) -> bytes:
        """Return a state as the bytes that a store keeps."""
        writing = self.writing(given)
        while True:
            try:
                next(writing)
            except StopIteration as done:
                return bytes(done.value)

    def writing(self, given: State) -> Generator[None, None, bytes]:
        """Write a state in small steps, and return its bytes with the last."""
        before, self._known = self._known, {}
        fields = ['"$":"state.State"']
        for name, value in given_fields(given):
            text = (yield from self._records(value, before)) if isinstance(value, Records) else text_of(value)
            fields.append(f'"{name}":{text}')
        inside = ",".join(fields)
        return f'{{"format":{FORMAT},"state":{{{inside}}}}}'.encode("ascii")

    def _records(
        self, records: Records[object, object], before: Mapping[int, tuple[Chunk, str]]
    ) -> Generator[None, None, str]:
        texts: list[str] = []
        for chunk in records.chunks():
            if chunk:
                texts.append(self._chunk(chunk, before))
                yield
        inside = ",".join(texts)
        return f'{{"$map":[{inside}]}}'

    def _chunk(self, chunk: Chunk, before: Mapping[int, tuple[Chunk, str]]) -> str:
        known = before.get(id(chunk))
        if known is None or known[0] is not chunk:
            known = (chunk, text_of(list(chunk.items()))[1:-1])
        self._known[id(chunk)] = known
        return known[1]
