"""How our docstrings are read for the reference.

They keep the indentation that their source gives them. A formula is indented by four; the usual
cleaning takes away what all lines but the first have in common, and with it the indentation of a
formula that stands alone under its sentence.

A field or constant is explained by the comment at the end of its line. Functions, methods and
constants whose name says it all have no docstring; they are shown all the same.

They are written as plain text. Of Markdown they have backticks and blank lines; brackets are brackets.
"""

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, Extension, Module, Object, ObjectNode, Visitor

BRACKET = re.compile(r"(`[^`]*`|^    .*$)|\[", re.MULTILINE)  # those in code and formulas apart
COMMENT = re.compile(rb"\s*#\s*(?!noqa|type:)(.+)")


class Docstrings(Extension):
    def on_instance(self, *, node: ast.AST | ObjectNode, obj: Object, agent: Any, **_: Any) -> None:
        if not isinstance(agent, Visitor) or not isinstance(node, ast.AST):
            return
        if isinstance(obj, Attribute):
            told = comment(agent.code, node)
            if obj.docstring is None and (told or isinstance(obj.parent, Module)):
                obj.docstring = Docstring(told, parent=obj)
        elif obj.docstring is None:
            obj.docstring = Docstring("", parent=obj)
        else:
            obj.docstring.value = indented(node)


def comment(code: str, node: ast.AST) -> str:
    """What stands behind a statement, on its last line."""
    assert isinstance(node, ast.stmt)
    assert node.end_lineno is not None
    line = code.splitlines()[node.end_lineno - 1].encode()
    found = COMMENT.fullmatch(line[node.end_col_offset :])
    return found[1].decode() if found else ""


def indented(node: ast.AST) -> str:
    """The docstring without the indentation of the code around it."""
    assert isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    first = node.body[0]
    assert isinstance(first, ast.Expr)
    assert isinstance(first.value, ast.Constant)
    start = " " * first.col_offset
    lines = str(first.value.value).splitlines()
    text = "\n".join(line.removeprefix(start) for line in lines).strip()
    return BRACKET.sub(lambda found: found[1] or "&#91;", text)
