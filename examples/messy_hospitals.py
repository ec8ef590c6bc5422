"""Three made-up hospitals whose tables are as such tables are: each exported by another program.

    python3 examples/messy_hospitals.py FOLDER

writes for each of nord, süd and west

    patients.csv, links.csv         what the hospital learns from: who was treated, and who shared a team
    tomorrow.csv, tomorrow_links.csv  exported later: another order, new patients without an outcome

nord    commas, UTF-8
süd     semicolons after Excel's line `sep=;`, Windows-1252, decimal commas, points between thousands,
        dates as 31.12.2023, missing values as "k. A.", columns in another order
west    tabs, UTF-8 with its mark, a ward that the others do not have
"""

import csv
import io
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

OUTCOMES = ("nursing home", "rehabilitation", "home")
WARDS = ("Innere", "Chirurgie", "Gynäkologie", "Unfallchirurgie")
COLUMNS = ("case", "age", "crp", "thrombocytes", "ward", "admitted", "smoker", "outcome")
PATIENTS, NEW = 400, 60
TEAMS = 2  # links a patient

Row = dict[str, str]


@dataclass(frozen=True)
class Hospital:
    """How a hospital's patients are, and how it writes them down."""

    name: str
    shares: tuple[float, ...]  # of the outcomes
    wards: tuple[str, ...]
    delimiter: str = ","
    encoding: str = "utf-8"
    columns: tuple[str, ...] = COLUMNS
    first: str = ""
    absent: str = ""
    number: Callable[[float], str] = lambda value: f"{value:.1f}"
    large: Callable[[int], str] = str
    day: Callable[[date], str] = date.isoformat


def german(value: float) -> str:
    return f"{value:.1f}".replace(".", ",")


def grouped(value: int) -> str:
    return f"{value:,}".replace(",", ".")


HOSPITALS = (
    Hospital("nord", (0.60, 0.30, 0.10), WARDS),
    Hospital(
        "süd",
        (0.10, 0.55, 0.35),
        WARDS,
        delimiter=";",
        encoding="cp1252",
        columns=(*("ward", "case", "smoker", "outcome", "thrombocytes", "crp", "age", "admitted"),),
        first="sep=;\n",
        absent="k. A.",
        number=german,
        large=grouped,
        day=lambda day: day.strftime("%d.%m.%Y"),
    ),
    Hospital(
        "west",
        (0.30, 0.10, 0.60),
        (*WARDS, "Palliativstation"),
        delimiter="\t",
        encoding="utf-8-sig",
    ),
)


def patient(at: Hospital, number: int, draw: random.Random) -> Row:
    """Age, laboratory and ward say something about the outcome; so do the patients next to one."""
    (place,) = draw.choices(range(len(OUTCOMES)), at.shares)
    age = min(max(draw.gauss((78, 66, 52)[place], 12), 18), 103)
    crp = draw.lognormvariate((3.6, 3.0, 2.4)[place], 0.7)
    wards = [at.wards[(place + step) % len(at.wards)] for step in range(len(at.wards))]
    (ward,) = draw.choices(wards, [6, 3, 1, 1, 1][: len(wards)])
    admitted = date(2023, 1, 1) + timedelta(days=draw.randrange(365))
    row = {
        "case": f"{at.name[0].upper()}-{number:04}",
        "age": at.number(age),
        "crp": at.number(crp),
        "thrombocytes": at.large(draw.randrange(110, 420) * 1000),
        "ward": ward,
        "admitted": at.day(admitted),
        "smoker": str(int(draw.random() < (0.25, 0.3, 0.2)[place])),
        "outcome": OUTCOMES[place],
    }
    for column, share in (("age", 0.03), ("crp", 0.10), ("ward", 0.02)):
        if draw.random() < share:
            row[column] = at.absent
    return row


def links(rows: list[Row], draw: random.Random) -> list[tuple[str, str]]:
    """Pairs of patients of one team, who most often have the same outcome."""
    pairs = []
    for row in rows * TEAMS:
        alike = [each for each in rows if each["outcome"] == row["outcome"]]
        other = draw.choice(alike if draw.random() < 0.7 else rows)
        pairs.append((row["case"], other["case"]))
    return pairs


def write(
    path: Path, at: Hospital, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> None:
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=at.delimiter)
    table.writerows([heads, *rows])
    path.write_bytes((at.first + text.getvalue()).encode(at.encoding))


def cells(at: Hospital, rows: list[Row]) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in at.columns) for row in rows]


def main(folder: Path) -> None:
    for at in HOSPITALS:
        draw = random.Random(at.name)
        place = folder / at.name
        place.mkdir(parents=True, exist_ok=True)
        rows = [patient(at, number, draw) for number in range(PATIENTS)]
        pairs = links(rows, draw)
        write(place / "patients.csv", at, at.columns, cells(at, rows))
        write(place / "links.csv", at, ("source", "target"), pairs)
        new = [patient(at, PATIENTS + number, draw) for number in range(NEW)]
        later = [*rows, *new]
        pairs += [pair for pair in links(later, draw) if pair[0] > rows[-1]["case"]]
        truth = [(row["case"], row["outcome"]) for row in new]
        write(place / "truth.csv", at, ("case", "outcome"), truth)
        for row in new:
            row["outcome"] = ""
        new[0]["ward"] = "Tagesklinik"  # opened in between
        draw.shuffle(later)
        write(place / "tomorrow.csv", at, at.columns, cells(at, later))
        write(place / "tomorrow_links.csv", at, ("source", "target"), pairs)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: messy_hospitals.py FOLDER")
    main(Path(sys.argv[1]))
