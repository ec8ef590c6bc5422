"""Three made-up hospitals as CSV tables: patients, and who was seen together with whom.

    python3 examples/hospitals.py FOLDER        writes FOLDER/north/patients.csv, visits.csv, ...

Patients have codes, most of them common to all departments, some typical of their own. Every
hospital sees few patients of some departments, which is what it can learn from the others.
"""

import csv
import random
import sys
from pathlib import Path

DEPARTMENTS = ("cardiology", "neurology", "oncology", "orthopaedics")
CODES = 80
PATIENTS = 300
SHARES = {
    "north": (0.55, 0.30, 0.10, 0.05),
    "south": (0.05, 0.50, 0.35, 0.10),
    "west": (0.25, 0.05, 0.25, 0.45),
}
SPLIT = {"train": 0.2, "val": 0.4, "test": 0.4}

Patient = dict[str, str | int]


def patients(site: str, draw: random.Random) -> list[Patient]:
    """A row a patient: an id, the codes as 0 or 1, the department, and what the row is used for."""
    made = []
    for number in range(PATIENTS):
        (place,) = draw.choices(range(len(DEPARTMENTS)), SHARES[site])
        codes = {drawn_code(place, draw) for _ in range(draw.randint(3, 9))}
        row: Patient = {"id": f"{site}-{number:03}"}
        row |= {f"code_{code:02}": int(code in codes) for code in range(CODES)}
        row["department"] = DEPARTMENTS[place]
        (row["use"],) = draw.choices(list(SPLIT), list(SPLIT.values()))
        made.append(row)
    return made


def drawn_code(place: int, draw: random.Random) -> int:
    """Low numbers are frequent everywhere; a third of the codes belong to the department."""
    rank = min(int(draw.paretovariate(0.7)), CODES) - 1
    return (rank * 7 + place * 19) % CODES if draw.random() < 0.33 else rank


def visits(rows: list[Patient], draw: random.Random) -> list[tuple[str, str]]:
    """Pairs of patients, most of them of one department."""
    pairs = []
    for row in rows * 2:
        alike = [each for each in rows if each["department"] == row["department"]]
        other = draw.choice(alike if draw.random() < 0.75 else rows)
        pairs.append((str(row["id"]), str(other["id"])))
    return pairs


def main(folder: Path) -> None:
    for site in SHARES:
        draw = random.Random(site)
        rows = patients(site, draw)
        (folder / site).mkdir(parents=True, exist_ok=True)
        with (folder / site / "patients.csv").open("w", newline="") as opened:
            table = csv.DictWriter(opened, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        with (folder / site / "visits.csv").open("w", newline="") as opened:
            csv.writer(opened).writerows([("source", "target"), *visits(rows, draw)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: hospitals.py FOLDER")
    main(Path(sys.argv[1]))
