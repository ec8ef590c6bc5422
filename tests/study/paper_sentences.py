"""The paper's quantitative sentences, Section 5 and the appendix, so that no claim is left out.

    python tests/study/paper_sentences.py ../shared/paper/pace.tex           # list them
    python tests/study/paper_sentences.py ../shared/paper/pace.tex --check   # against what is judged

A sentence is quantitative if it holds a digit or a word that counts or compares (`QUANTITY`). Tables'
bodies and displayed equations are left out: every number of a table has its own place beside ours.
`--check` exits with 1 unless the sentences that `pace_study` judges are exactly these, word by word.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib import resources
from pathlib import Path

FILES = {  # the paper's files in its own order -> where a reader finds them
    "sec/5_experiments.tex": "Section 5",
    "tab/main_results.tex": "Table 1",
    "tab/core_ablation.tex": "Table 2",
    "tab/appendix_tables.tex": "Table 3",
    "tab/fairness_summary.tex": "Table 4",
    "sec/appendix.tex": "Appendix",
    "tab/rank_tradeoff.tex": "Appendix B, table",
    "tab/extended_ablation.tex": "Appendix C, table",
    "tab/fairness_cnll.tex": "Appendix D, table",
    "tab/full_louvain_results.tex": "Appendix E",
    "tab/partition_robustness.tex": "Appendix E, partitions",
    "sec/cnll_theory.tex": "Appendix F",
}
HEADS = {  # a subsection's title -> its place
    "Experimental Setup": "5.1",
    "Main Results": "5.2",
    "Efficiency and Additional Analyses": "5.3",
    "Transport and Resolver Analysis": "5.4",
    "Matched Calibration Fairness": "5.5",
    "Limitations": "5.6",
    "Seed-Paired and Receiver-Level Diagnostics": "Appendix A",
    "Exact Rank Study": "Appendix B",
    "Complete Resolver Ablation": "Appendix C",
    "Matched CNLL Fairness Controls": "Appendix D",
    "Partition and evaluation protocol.": "Appendix E",
    "Robustness to Graph Partitioning": "Appendix E",
}
CAPTIONS = {  # where a file's captions stand, if not where its text does
    "Section 5": "5.3, figure",
    "Appendix": "Appendix A, figure",
    "Appendix E": "Appendix E, tables",
    "Appendix E, partitions": "Appendix E, tables of partitions",
}
CAPTION = r"\\caption(?:of{\w+})?"
BODIES = r"tabularx|equation|align|overpic"
SYMBOLS = {
    r"\alpha": "α", r"\delta": "δ", r"\pm": "±", r"\star": "*", r"\Delta": "Δ", r"\ge": "≥",
    r"\le": "≤", r"\in": "∈", r"\%": "%", "--": "–", "~": " ", r"\,": " ", r"\,;": ";",
}  # fmt: skip
QUANTITY = re.compile(
    r"\d|\b(zero|nonzero|one|two|three|four|five|six|seven|eight|nine|ten|fifteen|sixty|twenty|both|"
    r"every|all|highest|higher|best|stronger|ahead|exceeds?|leads?|improves?|tied?|most)\b",
    re.IGNORECASE,
)
NO_NUMBER = re.compile(r"\bF1\b|[Tt]able \S+|[Ff]igure \S+|Eq\. \S+|Equation \S+|Proposition \d")


def sentences(tex: str) -> list[tuple[str, str]]:
    """Place and wording of each, in the paper's order."""
    files = dict(
        zip(*[iter(re.split(r"^%% file: (\S+)\n", tex, flags=re.MULTILINE)[1:])] * 2, strict=True)
    )
    found = []
    for name, place in FILES.items():
        for here, text in passages(files[name], place):
            found += [(here, each) for each in split(text) if quantitative(each)]
    return list(dict.fromkeys(found))


def passages(tex: str, place: str) -> list[tuple[str, str]]:
    """Running text between heads, then captions, each with its place."""
    tex = re.sub(rf"\\begin{{({BODIES})\*?}}.*?\\end{{\1\*?}}", " ", tex, flags=re.DOTALL)
    captions = [(CAPTIONS.get(place, place), text) for text in braced(tex, CAPTION)]
    for _, text in captions:
        tex = tex.replace(text, "")
    parts = re.split(
        r"\\(?:sub)?section{([^}]*)}|\\paragraph{([^}]*)}|\\large\\bfseries ([^\n]*)\n", tex
    )
    running, here = [], place
    for index, part in enumerate(parts):
        if index % 4 == 0:
            running += [(here, block) for block in re.split(r"\n\s*\n", part or "")]
        elif part:
            here = HEADS.get(part.strip(), here)
    return [(where, plain(text)) for where, text in (*running, *captions)]


def braced(tex: str, command: str) -> list[str]:
    """What stands in the braces after a command, nested ones included."""
    found = []
    for match in re.finditer(command + r"{", tex):
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(tex[at], 0)
            at += 1
        found.append(tex[match.end() : at - 1])
    return found


def plain(tex: str) -> str:
    """The words without TeX."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    tex = re.sub(r"\\(eq)?ref{[a-z]+:([^}]*)}", r"\2", tex)
    tex = re.sub(r"\s*\\cite{[^}]*}", "", tex)
    tex = re.sub(
        r"\\(begin|end|label|input|includegraphics|setcounter|setlength|renewcommand)(\[[^]]*\])?({[^}]*})*",
        "",
        tex,
    )
    tex = re.sub(r"\\(texttt|textbf|text|mathrm|mathcal|operatorname|mathbb){([^}]*)}", r"\2", tex)
    for symbol, word in SYMBOLS.items():
        tex = tex.replace(symbol, word)
    tex = re.sub(r"\[t\]\{[\d.]+|\\[a-zA-Z]+\*?(\[[^]]*\])?", " ", tex)
    tex = re.sub(r"\{?\d[\d.]*pt\}?", " ", tex)
    return " ".join(re.sub(r"[${}]|\\", "", tex).split())


def split(text: str) -> list[str]:
    """Into sentences; abbreviations do not end one."""
    text = re.sub(r"\b(Eq|Fig|vs|i\.e|e\.g)\. ", r"\1.~", text)
    return [each.replace("~", " ") for each in re.split(r"(?<=[.?!])\s+(?=[A-Z(])", text) if each]


def quantitative(sentence: str) -> bool:
    return bool(QUANTITY.search(NO_NUMBER.sub("", sentence)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tex", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with what is judged")
    options = parser.parse_args()
    listed = sentences(options.tex.read_text(encoding="utf-8"))
    if not options.check:
        for place, text in listed:
            print(f"{place}\t{text}")
        return 0
    text = resources.files("pace_study").joinpath("sentences.json").read_text(encoding="utf-8")
    judged = [(each["place"], each["text"]) for each in json.loads(text)]
    for place, sentence in [pair for pair in listed if pair not in judged]:
        print(f"not judged\t{place}\t{sentence}")
    for place, sentence in [pair for pair in judged if pair not in listed]:
        print(f"not in the paper\t{place}\t{sentence}")
    return int(set(listed) != set(judged))


if __name__ == "__main__":
    sys.exit(main())
