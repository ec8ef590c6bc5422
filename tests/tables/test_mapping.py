"""A site's mapping: names, words, units, dates, limits and lists become what sites agreed on."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from pace.errors import GraphError, ProblemsError, SettingError
from pace.tables.codebook import Codebook, Column, read_columns, write_columns
from pace.tables.importing import Columns, import_graph
from pace.tables.mapping import ColumnMapping, MappedFile, Rule
from pace.tables.matching import propose_mapping
from pace.tables.problems import Problems
from pace.tables.proposal import propose_columns
from pace.tables.table import open_table, read_table
from tests.preloaded import Preloaded


def mapped(path: Path, text: str, *rules: Rule) -> MappedFile:
    path.write_text(text)
    return MappedFile(open_table(path), ColumnMapping(rules))


def numbers(file: MappedFile, name: str) -> list[float]:
    table = read_table(file, Problems(), text=[], numbers=[name])
    assert not table.problems.count
    return [round(float(value), 3) for value in table.numbers[name].values]


def test_limits_and_ranges_become_numbers_in_the_notation_of_the_file(tmp_path: Path) -> None:
    text = "id;crp;alter\na;<0,5;60-69\nb;>100;80+\nc;≤3;\nd;12,5;18\n"
    rules = Rule("crp", "crp", limits=True), Rule("age", "alter", limits=True)
    file = mapped(tmp_path / "n.csv", text, *rules)
    assert numbers(file, "crp") == [0.25, 100, 1.5, 12.5]
    file = mapped(tmp_path / "n.csv", text, *rules)
    ages = read_table(file, Problems(), text=["age"], numbers=["age"])
    assert ages.numbers["age"].values[[0, 1, 3]].tolist() == [64.5, 80, 18]
    assert math.isnan(ages.numbers["age"].values[2])  # missing stays missing
    assert list(ages.text["age"]) == ["64.5", "80", "", "18"]


def test_units_factor_and_offset(tmp_path: Path) -> None:
    text = "id,t,w\na,98.6 F,1.234\nb,104 F,2\n"
    file = mapped(
        tmp_path / "n.csv",
        text,
        Rule("temperature", "t", unit="F", factor=5 / 9, offset=-160 / 9),
        Rule("weight", "w", factor=1000),
    )
    assert numbers(file, "temperature") == [37, 40]
    assert numbers(file, "weight") == [1234, 2000]


def test_a_point_in_a_converted_column_is_not_taken_for_thousands(tmp_path: Path) -> None:
    """In a file with decimal commas, 1.234 is a number of thousands; a converted 1.234 is not."""
    text = "id;krea;platelets\na;88,42;150.000\nb;109,1;300.000\n"
    rules = Rule("creatinine", "krea", factor=1 / 88.42), Rule("platelets", "platelets")
    assert numbers(mapped(tmp_path / "n.csv", text, *rules), "creatinine") == [1.0, 1.234]
    file = mapped(tmp_path / "n.csv", text, *rules)
    both = read_table(file, Problems(), text=[], numbers=["creatinine", "platelets"])
    assert both.numbers["platelets"].values.tolist() == [150_000, 300_000]


def test_words_dates_and_lists(tmp_path: Path) -> None:
    text = (
        "nr;geb;da;raucher;dx;sex\n"
        "a;01.01.1950;01.01.2020;Ja;E11, I10;W\n"
        "b;01.07.1990;01.07.2020;nein;;m\n"
        "c;k. A.;01.07.2020;;NA;divers\n"
    )
    file = mapped(
        tmp_path / "n.csv",
        text,
        Rule("age", "geb", age_at="da"),
        Rule("smoker", "raucher", values={"ja": "1", "nein": "0"}),
        Rule("dx", "dx", separator=",", flags={"E11": "diabetes", "I10": "hypertension"}),
        Rule("sex", "sex", values={"m": "male", "w": "female"}),
    )
    names = ["age", "smoker", "diabetes", "hypertension", "sex"]
    assert file.columns == names
    table = read_table(file, Problems(), text=names)
    assert {name: list(cells) for name, cells in table.text.items()} == {
        "age": ["70.00", "30.00", "k. A."],
        "smoker": ["1", "0", ""],
        "diabetes": ["1", "0", ""],
        "hypertension": ["1", "0", ""],
        "sex": ["female", "male", "divers"],
    }
    fixed = mapped(tmp_path / "n.csv", text, Rule("age", "geb", age_at="2000-01-01"))
    assert read_table(fixed, Problems(), text=["age"]).text["age"][0] == "50.00"
    wrong = mapped(tmp_path / "n.csv", text, Rule("age", "geb", age_at="admission"))
    with pytest.raises(SettingError, match="expected a day such as 2024-12-31 or a column of"):
        read_table(wrong, Problems(), text=["age"])


def test_without_the_day_of_admission_there_is_no_age(tmp_path: Path) -> None:
    """What is told is the day that is missing, never the date of birth in place of years."""
    text = "geb;da\n01.01.1950;NA\n01.01.1950;01.01.2020\n"
    file = mapped(tmp_path / "n.csv", text, Rule("age", "geb", age_at="da"))
    assert list(read_table(file, Problems(), text=["age"]).text["age"]) == ["NA", "70.00"]


def test_a_day_that_may_be_a_month_is_a_problem(tmp_path: Path) -> None:
    file = mapped(tmp_path / "n.csv", "dob\n03/04/1950\n", Rule("age", "dob", age_at="2020-01-01"))
    problems = Problems()
    read_table(file, problems, text=["age"])
    assert "day and month cannot be told apart" in problems.lines()[0]


def test_the_file_is_read_again_as_it_was_written_and_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mapping.toml"
    mapping = ColumnMapping(
        (
            Rule("crp", 'C "R" P', unit="mg/l", factor=0.1, offset=1.0, limits=True),
            Rule("dx", "dx", separator="|", flags={"E 11": "diabetes"}, look="several words"),
            Rule("kind", "Ü", values={"ja": "yes"}, age_at=""),
        )
    )
    write_columns(path, mapping)
    assert read_columns(path, ColumnMapping) == mapping
    assert 'flags = {"E 11" = "diabetes"}, look = "several words"}' in path.read_text()
    with pytest.raises(ValueError, match="already exists"):
        write_columns(path, mapping)
    path.write_text(path.read_text().replace("limits", "limit"))
    with pytest.raises(SettingError, match="unknown key 'limit': did you mean 'limits'"):
        read_columns(path, ColumnMapping)
    for rule in ({"factor": 0.0}, {"separator": ";"}):
        with pytest.raises(SettingError, match=r"factor 0|give both, or none"):
            Rule("a", "b", **rule)
    with pytest.raises(SettingError, match="'a' twice"):
        ColumnMapping((Rule("a", "b"), Rule("a", "c")))
    with pytest.raises(GraphError, match=r"no column 'agee', .* did you mean 'age'\?"):
        mapped(tmp_path / "n.csv", "id,age\n", Rule("age", "agee"))
    with pytest.raises(SettingError, match="what is 'ja'"):
        mapped(tmp_path / "n.csv", "id,age\n", Rule("age", "age", values={"ja": "?"}))


def described(folder: Path, text: str, **asked: Any) -> object:
    (folder / "other.csv").write_text(text)
    return propose_columns(folder / "other.csv", label="outcome", **asked)[0]


def english(draw: random.Random, rows: int = 60) -> str:
    text = "id,age,sex,weight,glucose,temp,smoker,ward,diabetes,outcome\n"
    for row in range(rows):
        sex, ward = draw.choice(["male", "female"]), draw.choice(["icu", "day"])
        text += (
            f"p{row},{draw.gauss(60, 10):.0f},{sex},{draw.gauss(80, 9):.1f},{draw.gauss(100, 12):.0f},"
            f"{draw.gauss(37, 0.5):.1f},{row % 2},{ward},{row % 3 // 2},"
            f"{draw.choice(['home', 'readmitted'])}\n"
        )
    return text


def german(draw: random.Random, rows: int = 60) -> str:
    lines = [
        "Fallnr;Geburtsdatum;Aufnahmedatum;Geschlecht;Gewicht;BZ;Temperatur;Raucher;Station;Diagnosen;E"
    ]
    for row in range(rows):
        numbers = (f"{draw.gauss(80, 9):.1f}", f"{draw.gauss(5.5, 0.7):.1f}")
        weight, glucose = (number.replace(".", ",") for number in numbers)
        fahrenheit = f"{draw.gauss(98.6, 0.9):.1f}".replace(".", ",")
        dx = draw.choice(["Diabetes", "Diabetes/x", "", "Asthma"])
        both = "Diabetes|Asthma" if row % 3 == 0 else dx.split("/")[0]
        lines.append(
            f"{row:03};{1 + row % 28:02}.03.{1940 + row % 40};01.06.2020;{draw.choice('mw')};{weight};"
            f"{'<2' if row == 5 else glucose};{fahrenheit};{draw.choice(['ja', 'nein'])};"
            f"{draw.choice(['ICU', 'Day'])};{both};{draw.choice(['Home', 'Wieder'])}"
        )
    return "\n".join(lines) + "\n"


def test_a_mapping_is_proposed_from_own_cells_and_others_descriptions(tmp_path: Path) -> None:
    draw = random.Random(0)
    other = described(tmp_path, english(draw))
    path = tmp_path / "mine.csv"
    path.write_text(german(draw))
    mapping = propose_mapping(open_table(path), "E", None, [other])  # type: ignore[list-item]
    rules = {rule.source: rule for rule in mapping.columns}
    assert {source: rule.name for source, rule in rules.items() if source != "Diagnosen"} == {
        "Fallnr": "id", "Geburtsdatum": "age", "Aufnahmedatum": "Aufnahmedatum", "Geschlecht": "sex",
        "Gewicht": "weight", "BZ": "glucose", "Temperatur": "temp", "Raucher": "smoker",
        "Station": "ward", "E": "outcome",
    }  # fmt: skip
    assert rules["Geburtsdatum"].age_at == "Aufnahmedatum"
    assert rules["Geschlecht"].values == {"m": "male", "w": "female"}
    assert rules["Station"].values == {"ICU": "icu", "Day": "day"}
    assert rules["Raucher"].values == {"ja": "1", "nein": "0"}
    assert (rules["BZ"].factor, rules["BZ"].limits) == (18.016, True)
    assert rules["Temperatur"].factor == pytest.approx(5 / 9, rel=1e-5)
    assert rules["Temperatur"].offset == pytest.approx(-160 / 9, rel=1e-5)
    assert rules["Gewicht"].factor == 1
    assert rules["Diagnosen"].flags == {"Diabetes": "diabetes"}
    assert rules["E"].values == {"Home": "home", "Wieder": "?"}
    assert "replace each ? by one of home, readmitted" in rules["E"].look
    assert "no other site has a flag for Asthma" in rules["Diagnosen"].look
    assert "glucose, mmol/l to mg/dl?" in rules["BZ"].look
    settled = [Rule("outcome", "E", values={"Home": "home", "Wieder": "readmitted"})]
    rest = [rule for rule in mapping.columns if rule.source != "E"]
    found, _ = propose_columns(path, label="E", mapping=ColumnMapping((*rest, *settled)))
    assert (found.label, found.id, found.classes) == ("outcome", "id", ("home", "readmitted"))
    spreads = {column.name: column.spread for column in found.columns if column.spread}
    assert 90 < spreads["glucose"].mean < 110
    assert 36 < spreads["temp"].mean < 38
    assert 35 < spreads["age"].mean < 90


def proposed(folder: Path, other: str, mine: str) -> dict[str, Rule]:
    """By column, the rules of a table beside another site's."""
    (folder / "mine.csv").write_text(mine)
    told = described(folder, other)
    mapping = propose_mapping(open_table(folder / "mine.csv"), "outcome", None, [told])  # type: ignore[list-item]
    return {rule.source: rule for rule in mapping.columns}


def rows(draw: random.Random, line: str, count: int = 60) -> str:
    """Lines with {i}, {big}, {small}, {ward} and {y} filled in."""
    return "".join(
        line.format(
            i=i,
            big=f"{draw.gauss(7000, 10):.1f}",
            small=f"{draw.gauss(3, 1):.2f}",
            ward=draw.choice(["day", "dawn"]),
            y=draw.choice(["home", "back"]),
        )
        + "\n"
        for i in range(count)
    )


def test_a_unit_that_no_usual_conversion_explains_is_asked_about(tmp_path: Path) -> None:
    draw = random.Random(2)
    other = "id,crp,outcome\n" + rows(draw, "p{i},{big},{y}")
    rules = proposed(tmp_path, other, "id,crp,outcome\n" + rows(draw, "p{i},{small},{y}"))
    assert (rules["crp"].factor, rules["crp"].offset) == (1, 0)
    assert "another unit? give factor, and offset" in rules["crp"].look


def test_a_word_that_may_be_two_is_left_to_a_person(tmp_path: Path) -> None:
    """Of `day` and `dawn`, `da` begins both."""
    draw = random.Random(3)
    other = "id,ward,outcome\n" + rows(draw, "p{i},{ward},{y}")
    mine = other.replace("dawn", "da").replace("day", "Day")
    rules = proposed(tmp_path, other, mine)
    assert rules["ward"].values == {"Day": "day"}
    assert "not da" in rules["ward"].look


def test_columns_of_other_names_or_kinds_are_not_taken_for_one_another(tmp_path: Path) -> None:
    draw = random.Random(4)
    other = "id,platelet,weight,sex,outcome\n" + rows(draw, "p{i},{small},{small},{ward},{y}")
    mine = "id,lactate,height,gender,outcome\n" + rows(draw, "p{i},{small},{small},{small},{y}")
    rules = proposed(tmp_path, other, mine)
    assert all(rules[name].name == name for name in ("lactate", "height", "gender"))
    assert "no other site has such a column" in rules["height"].look


def test_each_column_of_others_is_given_once(tmp_path: Path) -> None:
    """The most alike has it; the other stays with its own name."""
    draw = random.Random(5)
    other = "id,weight,outcome\n" + rows(draw, "p{i},{small},{y}")
    mine = "id,gewicht,weight_kg,outcome\n" + rows(draw, "p{i},{small},{small},{y}")
    rules = proposed(tmp_path, other, mine)
    assert sorted(rule.name == "weight" for rule in rules.values()) == [False] * 3 + [True]


def test_without_others_nothing_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(english(random.Random(1)))
    mapping = propose_mapping(open_table(tmp_path / "n.csv"), "outcome", None)
    assert all(rule == Rule(rule.source, rule.source) for rule in mapping.columns)


def test_detection_limits_are_not_called_missing(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text(
        "id,crp,kind\n"
        + "".join(f"p{i},{'<3' if i % 5 == 0 else i},{'xy'[i % 2]}\n" for i in range(30))
    )
    with pytest.raises(ProblemsError) as caught:
        propose_columns(path, label="kind")
    assert "holds limits or ranges: --mapping FILE" in str(caught.value)
    assert "--missing" not in str(caught.value)


def test_an_import_remembers_its_mapping(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("nr;Alter;k\na;61,5;ja\nb;30,5;nein\n")
    (tmp_path / "e.csv").write_text("von;nach\na;b\n")
    book = Codebook("kind", ("no", "yes"), columns=(Column("age", "number", centre=46.0),))
    mapping = ColumnMapping(
        (
            Rule("id", "nr"),
            Rule("age", "Alter"),
            Rule("kind", "k", values={"ja": "yes", "nein": "no"}),
        )
    )
    made = import_graph(
        tmp_path / "n.csv", tmp_path / "e.csv", Columns(mapping=mapping), codebook=book
    ).dataset
    assert made.graph.x.tolist() == [[15.5], [-15.5]]
    assert made.graph.y.tolist() == [1, 0]
    assert made.names.nodes == ("a", "b")
    assert made.mapping["columns"][1] == {"name": "age", "from": "Alter"}


def test_nobody_is_admitted_before_birth(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text(
        "id,born,came,kind\n" + "p1,1950-01-02,2024-03-01,x\np2,2024-03-01,1950-01-02,y\n"
    )
    rules = (Rule("id", "id"), Rule("age", "born", age_at="came"), Rule("kind", "kind"))
    with pytest.raises(ProblemsError, match="1 days of 'born' are after 'came': ages are negative"):
        propose_columns(path, label="kind", mapping=ColumnMapping(rules))


def test_what_a_person_has_to_say_is_one_object_of_json(tmp_path: Path, pace: Preloaded) -> None:
    rows = "".join(f"p{i},{i % 9}.5,{'xy'[i % 2]}\n" for i in range(20))
    (tmp_path / "a.csv").write_text(f"id,age,kind\n{rows}")
    other = rows.replace(",x", ",ja").replace(",y", ",nein")
    (tmp_path / "b.csv").write_text(f"id,age,kind\n{other}")
    first = ("codebook", "propose", "a.csv", "--label", "kind", "--out", "a.columns.toml")
    assert pace(*first, cwd=tmp_path).code == 0
    second = ("codebook", "propose", "b.csv", "--label", "kind", "--out", "b.columns.toml")
    asked = ("--mapping", "b.toml", "--like", "a.columns.toml", "--json")
    assert pace(*second, *asked, cwd=tmp_path).json["unsettled"] == [
        "kind: what is 'ja'?",
        "kind: what is 'nein'?",
    ]
