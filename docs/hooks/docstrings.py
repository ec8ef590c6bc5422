"""Docstrings keep the indentation that their source gives them.

A formula is indented by four. The usual cleaning takes away what all lines but the first have in
common, and with it the indentation of a formula that stands alone under its sentence.
"""

import ast
from typing import Any

from griffe import Extension, Object, ObjectNode


class Indentation(Extension):
    def on_instance(self, *, node: ast.AST | ObjectNode, obj: Object, **_: Any) -> None:
        body = getattr(node, "body", None)
        if obj.docstring is None or not isinstance(body, list) or not body:
            return
        first = body[0].value
        start = " " * first.col_offset
        lines = [line.removeprefix(start) for line in first.value.splitlines()]
        obj.docstring.value = "\n".join(lines).strip()
