"""What is said about messages, whatever the method: names of tensors in words, and common sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping

PLAIN = "It holds no node, edge, feature value or label."
NO_PROMISE = (
    "It is computed from them, and no formal privacy is promised: who gets it may infer something "
    "about your data."
)
ATTACKS = "What simple attacks learn from such uploads is measured on the page docs/privacy.md."
UNKNOWN = "of the method; see its documentation"
PARTS = {
    "/L": "update of {}, left factor",
    "/R": "update of {}, right factor",
    "/m": "mean square of what {} reads",
}


def tensor_sentence(name: str, tensors: Mapping[str, str], update: bool = False) -> str:
    """What a tensor is.

    Args:
        name: the tensor's.
        tensors: what the method says of tensors that are no parameters.
        update: whether parameters are sent as their change since W_0.
    """
    if hop := re.fullmatch(r"hop(\d+)/(.+)", name):
        return tensors.get(f"hop/{hop[2]}", UNKNOWN).format(hop[1])
    parameter = re.fullmatch(r"(\d+)\.(?:(.+)\.)?(\w+)(/[LRm])?", name)
    if parameter is None:
        return tensors.get(name, UNKNOWN)
    layer, inner, kind, part = int(parameter[1]) + 1, parameter[2], parameter[3], parameter[4]
    where = f"layer {layer}" + (f" ({inner})" if inner else "")
    if part:
        return PARTS[part].format(where)
    return f"{'update of ' if update else ''}{where}, {kind}"
