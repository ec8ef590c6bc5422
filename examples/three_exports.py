"""Three made-up hospitals whose exports agree on nothing: names, codes, units, dates, decimals.

    python3 examples/three_exports.py FOLDER

writes for each of north, süd and west

    patients.csv, links.csv     what the hospital learns from: who was treated, and who shared a team
    new.csv, new_links.csv      patients who came later, most of their links to earlier ones

and FOLDER/hidden/NAME.csv, the true outcomes of the new patients, which no hospital has.

north   commas, ISO dates, kg and mg/dl, flags as 0 and 1, CRP below the limit of detection as <3
süd     semicolons, Windows-1252, decimal commas, a date of birth, µmol/l, ja and nein, diagnoses in one
        cell, German names
west    tabs, pounds, age in bands, numbers with their unit, Y and N, month before day
"""

import csv
import io
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

PATIENTS, NEW = 240, 80
LINKS = 3  # a patient


@dataclass(frozen=True)
class Patient:
    number: int
    readmitted: bool
    age: float
    female: bool
    weight: float  # kg
    creatinine: float  # mg/dl
    crp: float  # mg/l
    smoker: bool
    diagnoses: tuple[str, ...]
    admitted: date


@dataclass(frozen=True)
class Hospital:
    """How many of its patients come back, and how it writes them down."""

    name: str
    share: float
    row: Callable[[Patient], dict[str, str]]
    case: str  # how an id is written
    ends: tuple[str, str]
    delimiter: str = ","
    encoding: str = "utf-8"


def german(value: float) -> str:
    return f"{value:.1f}".replace(".", ",")


def limited(crp: float, number: Callable[[float], str] = "{:.1f}".format) -> str:
    return "<3" if crp < 3 else number(crp)


def north(p: Patient) -> dict[str, str]:
    return {
        "case": f"N{p.number:04}",
        "age": f"{p.age:.0f}",
        "sex": "female" if p.female else "male",
        "weight": f"{p.weight:.1f}",
        "creatinine": f"{p.creatinine:.2f}",
        "crp": limited(p.crp),
        "smoker": str(int(p.smoker)),
        "diabetes": str(int("diabetes" in p.diagnoses)),
        "hypertension": str(int("hypertension" in p.diagnoses)),
        "admitted": p.admitted.isoformat(),
        "outcome": "readmitted" if p.readmitted else "home",
    }


def süd(p: Patient) -> dict[str, str]:
    german_names = {"diabetes": "Diabetes", "hypertension": "Hypertonie", "asthma": "Asthma"}
    born = p.admitted - timedelta(days=round(365.25 * p.age))
    return {
        "Fallnr": f"S-{p.number:04}",
        "Geburtsdatum": born.strftime("%d.%m.%Y"),
        "Aufnahme": p.admitted.strftime("%d.%m.%Y"),
        "Geschlecht": "w" if p.female else "m",
        "Gewicht": german(p.weight),
        "Krea (µmol/l)": f"{88.42 * p.creatinine:.0f}",
        "CRP": limited(p.crp, german),
        "Raucher": "ja" if p.smoker else "nein",
        "Diagnosen": ";".join(german_names[name] for name in p.diagnoses),
        "Wiederaufnahme": "ja" if p.readmitted else "nein",
    }


def west(p: Patient) -> dict[str, str]:
    band = 10 * int(p.age // 10)
    crp = limited(p.crp)
    return {
        "PatientID": f"W{p.number:05}",
        "Age": "80+" if band >= 80 else f"{band}-{band + 9}",
        "Gender": "F" if p.female else "M",
        "weight_lb": f"{p.weight * 2.20462:.0f}",
        "Creatinine": f"{p.creatinine:.2f} mg/dl",
        "CRP": f"{crp} mg/l",
        "Smoking": "Y" if p.smoker else "N",
        "Conditions": "|".join(p.diagnoses) or "none",
        "adm_date": p.admitted.strftime("%m/%d/%Y"),
        "Readmission": "Y" if p.readmitted else "N",
    }


HOSPITALS = (
    Hospital("north", 0.35, north, "N{:04}", ("source", "target")),
    Hospital("süd", 0.60, süd, "S-{:04}", ("von", "nach"), ";", "cp1252"),
    Hospital("west", 0.25, west, "W{:05}", ("from", "to"), "\t", "utf-8-sig"),
)


def patient(at: Hospital, number: int, draw: random.Random) -> Patient:
    """Age, laboratory and diagnoses say something about who comes back; so do a patient's neighbours."""
    back = draw.random() < at.share
    share = (0.7, 0.6) if back else (0.35, 0.4)
    diagnoses = [name for name, p in zip(("diabetes", "hypertension"), share, strict=True)
                 if draw.random() < p]  # fmt: skip
    diagnoses += ["asthma"] * (draw.random() < 0.2)
    return Patient(
        number,
        back,
        age=min(max(draw.gauss(74 if back else 64, 11), 20), 95),
        female=draw.random() < 0.5,
        weight=draw.gauss(78, 12),
        creatinine=draw.lognormvariate(0.30 if back else 0.0, 0.30),
        crp=draw.lognormvariate(2.4 if back else 1.8, 0.9),
        smoker=draw.random() < (0.35 if back else 0.25),
        diagnoses=tuple(diagnoses),
        admitted=date(2023, 1, 1) + timedelta(days=draw.randrange(365)),
    )


def links(of: list[Patient], among: list[Patient], draw: random.Random) -> list[tuple[int, int]]:
    """Pairs of patients of one team, who most often have the same outcome."""
    pairs = []
    for one in of * LINKS:
        alike = [other for other in among if other.readmitted == one.readmitted]
        other = draw.choice(alike if draw.random() < 0.5 else among)
        pairs.append((one.number, other.number))
    return pairs


def write(path: Path, at: Hospital, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]), delimiter=at.delimiter)
    table.writeheader()
    table.writerows(rows)
    path.write_bytes(text.getvalue().encode(at.encoding))


def main(folder: Path) -> None:
    for at in HOSPITALS:
        draw = random.Random(at.name)
        old = [patient(at, number, draw) for number in range(PATIENTS)]
        new = [patient(at, PATIENTS + number, draw) for number in range(NEW)]

        def rows(pairs: list[tuple[int, int]], at: Hospital = at) -> list[dict[str, str]]:
            named = [[at.case.format(number) for number in pair] for pair in pairs]
            return [dict(zip(at.ends, pair, strict=True)) for pair in named]

        write(folder / at.name / "patients.csv", at, [at.row(p) for p in old])
        write(folder / at.name / "links.csv", at, rows(links(old, old, draw)))
        write(folder / at.name / "new_links.csv", at, rows(links(new, [*old, *new], draw)))
        exported = [at.row(p) for p in new]
        label = list(exported[0])[-1]
        write(folder / at.name / "new.csv", at, [row | {label: ""} for row in exported])
        truth = [{"node": at.case.format(p.number), "outcome": north(p)["outcome"]} for p in new]
        plain = Hospital("", 0, north, "", ("", ""))
        write(folder / "hidden" / f"{at.name}.csv", plain, truth)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: three_exports.py FOLDER")
    main(Path(sys.argv[1]))
