"""Our messages inside Flower's: one record with their words."""

from __future__ import annotations

from flwr.app import ConfigRecord, RecordDict

from pace.runtimes.network.messages import Words, known

RECORD = "pace"


def pack(words: Words) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord(dict(words))} if words else {})


def unpack(content: RecordDict) -> Words:
    record = content.get(RECORD)
    return known(record) if isinstance(record, ConfigRecord) else {}
