"""`pace doctor`: is everything here, and does it work?"""

from __future__ import annotations

import typer

from pace.cli.given import As_json

EXAMPLES = """
  pace doctor

  pace doctor --json

It exits with 1 if something that is needed is broken; what is optional may be missing.
"""
SIGN = {"ok": ("✓", "green"), "optional": ("-", "yellow"), "broken": ("✗", "bold red")}


def doctor(as_json: As_json = False) -> None:
    """Look at this machine: versions, extras, threads, data found; try every step once."""
    from rich.table import Table
    from rich.text import Text

    from pace.cli import console
    from pace.cli import doctor_checks as pure
    from pace.io.text import shown

    sections = pure.examine()
    healthy = pure.healthy(sections)
    if as_json:
        console.one_object(pure.plain(sections))
        raise typer.Exit(0 if healthy else 1)
    to = console.console()
    left = max(len(each.about) for found in sections.values() for each in found)
    for title, found in sections.items():
        to.print(title, style="bold")
        made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        made.add_column(no_wrap=True)
        made.add_column(no_wrap=True, min_width=left)
        made.add_column(overflow="fold")
        for each in found:
            words = Text(shown(each.found))
            if each.do:
                words.append(f"\n{shown(each.do)}", "bold" if each.state == "broken" else "dim")
            made.add_row(Text(*SIGN[each.state]), each.about, words)
        to.print(made)
        to.print()
    broken = sum(each.state == "broken" for found in sections.values() for each in found)
    optional = sum(each.state == "optional" for found in sections.values() for each in found)
    spare = f"; {optional} optional {'thing is' if optional == 1 else 'things are'} missing"
    if healthy:
        to.print(f"All that is needed works{spare if optional else ''}.", style="bold green")
    else:
        to.print(
            f"{broken} of what is needed is broken{spare if optional else ''}.", style="bold red"
        )
        raise typer.Exit(1)
