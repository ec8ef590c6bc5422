"""Methods of installed packages: entry points of the group `pace.methods`, `ties = "pace_ties:Ties"`.

Their names are read from the packages' metadata, which imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from pace.errors import SettingError

GROUP = "pace.methods"


@dataclass(frozen=True)
class Advertised:
    """What a package says of a method."""

    name: str
    code: str
    """`package.module:Name`."""
    package: str
    """The distribution's name and version."""


def advertised() -> dict[str, list[Advertised]]:
    """All entry points by their lower-case name; several packages may claim the same."""
    found: dict[str, list[Advertised]] = {}
    for each in metadata.entry_points(group=GROUP):
        package = f"{each.dist.name} {each.dist.version}" if each.dist else "an unnamed package"
        name = each.name.lower()
        method = Advertised(name, each.value.partition("[")[0].strip(), package)
        if method not in found.setdefault(name, []):  # the same folder may stand on the path twice
            found[name].append(method)
    return found


def code_of(name: str) -> str | None:
    """`package.module:Name` of an installed method; None where no package has one of this name."""
    claims = advertised().get(name, [])
    if len({each.code for each in claims}) > 1:
        listed = " and ".join(sorted(f"{each.code} of {each.package}" for each in claims))
        raise SettingError(f"the method {name!r} is claimed by {listed}: name one by its code")
    return claims[0].code if claims else None
