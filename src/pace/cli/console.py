"""How commands speak: as the terminal does, or in one JSON object on stdout and nothing else there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pace.io.terminal import console, facts, live, many, progress, table

__all__ = ["console", "facts", "live", "many", "one_object", "progress", "table"]


def one_object(found: Mapping[str, Any]) -> None:
    print(json.dumps(found))
