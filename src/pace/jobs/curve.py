"""Which 32 bytes may be an Ed25519 public key: the curve's few weak points are refused.

Under a point whose order divides 8, signatures verify that nobody made, and libraries let it pass.
"""

FIELD = 2**255 - 19
SIGN = 1 << 255  # the bit that says which of two x belongs to a y
# y of the points of order 8, 4, 2 and 1; each has one or two x.
EIGHTH = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL_ORDER = frozenset({EIGHTH, FIELD - EIGHTH, 0, FIELD - 1, 1})


def strong_point(encoded: bytes) -> bool:
    """Whether a key's bytes are written in the one canonical way and not of small order."""
    y = int.from_bytes(encoded, "little") & ~SIGN
    return y < FIELD and y not in SMALL_ORDER
