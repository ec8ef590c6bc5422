"""Reading and writing: files that are whole or absent, what comes from outside, the terminal."""

from pace.io import atomic, plugins, records, terminal, untrusted
from pace.io.atomic import state_folder
from pace.io.plugins import allow, allowed
from pace.io.records import (
    NOTHING,
    OPTIONAL,
    UPDATE,
    Setting,
    join_settings,
    load_record,
    load_toml,
    optional,
    plain_record,
    read_record,
    record_key,
    settings_of,
    split_settings,
    typed,
    written,
)
from pace.io.terminal import coloured, console, drawn, many, rule, say
from pace.io.text import FORMULA, NUMBER, Medium, one_line, shown
from pace.io.untrusted import open_regular, read_head, size_of
