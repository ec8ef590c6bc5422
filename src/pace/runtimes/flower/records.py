"""Our messages inside Flower's: one record with one `bytes` entry and words of a fixed kind.

    ask for the upload   query.upload   {job}
    the upload           its reply      {code: "ok", name, payload}  or  {code}
    the return           query.return   {job, payload}
    acknowledgement      its reply      nothing  or  {code}

The payload is a frame of ours as it would lie in a file. An acknowledgement is empty: a receiver
gives no feedback.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, RecordDict

RECORD = "pace"
UPLOAD, RETURN = "upload", "return"  # the handlers' names

Words = dict[str, str | bytes]


def pack(words: Words) -> RecordDict:
    return RecordDict({RECORD: ConfigRecord(dict(words))} if words else {})


def unpack(content: RecordDict) -> Words:
    """What the record says, of the kinds we know; anything else is as if it were not there."""
    record = content.get(RECORD)
    if not isinstance(record, ConfigRecord):
        return {}
    kinds = {"job": str, "code": str, "name": str, "payload": bytes}
    return {key: record[key] for key, kind in kinds.items() if isinstance(record.get(key), kind)}


def text(words: Words, key: str) -> str:
    """A short printable word of a message, or nothing."""
    found = words.get(key, "")
    return found if isinstance(found, str) and len(found) <= 64 and found.isprintable() else ""


def payload(words: Words) -> bytes:
    found = words.get("payload", b"")
    return found if isinstance(found, bytes) else b""
