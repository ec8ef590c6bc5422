"""Comments in a page are for the tests (which blocks run, and how) and for editors, not for the site."""

import re
from typing import Any

FENCE_OR_COMMENT = re.compile(r"^(```+).*?^\1 *$|<!--.*?-->\n?", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    def kept(found: re.Match[str]) -> str:
        return found[0] if found[1] else ""

    return FENCE_OR_COMMENT.sub(kept, markdown)
