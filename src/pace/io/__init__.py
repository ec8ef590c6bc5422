"""Reading and writing: files that are whole or absent, what comes from outside, the terminal."""

from pace.io import atomic, plugins, records, terminal, untrusted
from pace.io.atomic import state_folder
from pace.io.plugins import allow, allowed
from pace.io.records import optional, plain_record, record_key, split_settings, written
from pace.io.terminal import coloured, console, drawn, many, rule, say
from pace.io.text import FORMULA, NUMBER, Medium, one_line, shown
from pace.io.untrusted import open_regular, read_head, size_of
