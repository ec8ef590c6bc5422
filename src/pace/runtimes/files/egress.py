"""The egress report: what leaves a site, to whom, for what, at what risk, under which controls, and who
agreed. In the words of output checkers (SATRE, SACRO); it stays at the site.

Two files in the user's state folder (`pace.io.atomic`) belong to it:

    policy.toml   the site's own limits, written by the person who answers for its data
    egress.log    one JSON object a line: a decision, the hash of the line before, its own hash

Who changes or removes a line breaks the chain after it; who cuts off its end is found out by the hash of
any later decision, which egress reports hold.
"""

import getpass
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pace import reports
from pace.errors import FileError, PolicyError, SettingError
from pace.io import atomic, records, state_folder, untrusted
from pace.jobs import SERVER, Disclosure, Job, disclosure, signatures
from pace.protocol import Messages, layouts
from pace.reports import Block, Cell, Facts, Section, Table, Text
from pace.runtimes.files import attacks
from pace.runtimes.files.attacks import Risk
from pace.runtimes.files.model import KeptModel
from pace.runtimes.files.site import Site, class_names

FORMAT = "pace-egress-1"
POLICY, LOG = "policy.toml", "egress.log"
LARGEST, LARGEST_POLICY = 2**26, 2**16  # bytes, of a report or the log, and of a policy
FIRST = "0" * 64  # in place of the hash before the first line of the log
SLOW = 60.0  # seconds of training above which no second model is trained for the sums


@dataclass(frozen=True)
class Limit:
    """One limit of a policy, and what was found."""

    rule: str
    found: str
    kept: bool


@dataclass(frozen=True)
class Policy:
    """What a site lets go; every key may be left out."""

    smallest_class: int = 0
    """Training nodes that each class must have which occurs at all."""
    largest_auc: float = 1.0
    """Of the best attack that tells training nodes from others: 0.5 is guessing."""
    sealed_only: bool = False
    """Whether the server may see sums only."""
    methods: tuple[str, ...] = ()
    """The methods that are allowed; empty: any."""
    editions: bool = True
    """Whether an upload may serve later editions of its job."""
    agree: bool = False
    """Whether an upload within the limits may go without a person's yes."""

    def __post_init__(self) -> None:
        if self.smallest_class < 0 or not 0 <= self.largest_auc <= 1:
            numbers = f"smallest_class is {self.smallest_class}, largest_auc {self.largest_auc:g}"
            raise SettingError(f"{numbers}, expected 0 or more, and 0 to 1")

    def limits(self, job: Job, smallest: int, risk: Risk | None, editions: bool) -> Iterator[Limit]:
        """Those that are set, against an upload; `risk` is that of what the server will see."""
        if (least := self.smallest_class) > 0:
            rule = f"every class has {least} training nodes or more, or none"
            yield Limit(rule, f"the smallest has {smallest}", smallest >= least)
        if self.largest_auc < 1:
            auc = None if risk is None else risk.auc
            if auc is None and not layouts.upload_layout(job.federation):
                auc = 0.5  # nothing is sent
            rule = f"membership is told with an AUC of at most {self.largest_auc:g}"
            measured = "it could not be measured" if auc is None else f"{auc:.3f}"
            yield Limit(rule, measured, auc is not None and auc <= self.largest_auc)
        if self.sealed_only:
            yield Limit("the job is sealed", "sealed" if job.sealed else "open", job.sealed)
        if self.methods:
            rule = f"the method is {' or '.join(self.methods)}"
            yield Limit(rule, job.method, job.method in self.methods)
        if not self.editions:
            use = "it may serve later editions" if editions else "this job alone"
            yield Limit("the upload serves no later edition", use, not editions)


def read_policy(path: Path | None = None) -> Policy | None:
    """The policy of a file, or the user's own; None where the user has none."""
    if path is None:
        path = state_folder() / POLICY
        if not path.exists():
            return None
    with records.reading(path, "no policy", "see docs/site.md for its keys"):
        content = untrusted.toml(untrusted.read(path, LARGEST_POLICY))
        return records.read_record(Policy, content, "the policy", strict=True)


def log_file() -> Path:
    """Where the user's decisions are written down."""
    return state_folder() / LOG


def append_decision(entry: Mapping[str, Any]) -> str:
    """Put a decision at the end of the log; its hash."""
    path = log_file()
    with atomic.held(path.with_name(f".{LOG}.lock"), f"another process writes {path}", 30):
        number, last = verify_log(path) if path.exists() else (0, FIRST)
        before = untrusted.read(path, LARGEST) if number else b""
        line = {"number": number + 1, "time": datetime.now(UTC).isoformat(timespec="seconds")}
        line |= {"user": getpass.getuser(), **entry, "previous": last}
        line["hash"] = own = _hash(line)
        content = json.dumps(line, sort_keys=True).encode() + b"\n"
        atomic.write(path, before + content, private=True)
    return own


def verify_log(path: Path, head: str = "") -> tuple[int, str]:
    """How many decisions a log holds and the hash of the last; FileError where the chain is broken.

    `head` is a hash that must be among them, such as a report's: a log that was cut off lacks it.
    """
    last, number, has_head = FIRST, 0, not head
    for number, line in enumerate(untrusted.read(path, LARGEST).splitlines(), start=1):
        with records.reading(path, f"damaged in line {number}", "compare it with a backup"):
            entry = dict(untrusted.json(line))
            own = entry.pop("hash", None)
        if entry.get("previous") != last or own != _hash(entry) or entry.get("number") != number:
            wrong = f"line {number} of {path} is not what was written there, or others are missing"
            raise FileError(f"{wrong}: compare it with a backup and the egress reports")
        last, has_head = own, has_head or own == head
    if not has_head:
        wrong = f"{path} has {number} decisions and none with hash {head[:16]}"
        raise FileError(f"{wrong}: its end was cut off, or it is another log")
    return number, last


def _hash(entry: Mapping[str, Any]) -> str:
    return signatures.sha256_of(json.dumps(entry, sort_keys=True).encode())


@dataclass(frozen=True)
class Decision:
    """Who agreed or did not; a limit that was passed is among the report's."""

    agreed: bool
    by: str
    audit: str  # the hash of its line in the site's log


@dataclass(frozen=True)
class Egress:
    """One upload before it leaves."""

    job: str
    digest: str
    method: str
    name: str  # this site's
    sha256: str
    bytes: int
    parties: dict[str, str]  # fingerprints of the keys of participants and server
    sealed: bool
    counts: dict[str, int]  # training nodes by class
    upload: Risk  # of a sealed one, should all others and the server work together
    sums: Risk | None  # of sums, with models of this site's own validation nodes for the others
    disclosed: Disclosure
    trained: str  # when, in UTC
    seconds: float
    edition: int
    editions: bool = False  # whether it is signed for later editions too
    limits: tuple[Limit, ...] = ()
    decision: Decision | None = None
    format: str = FORMAT

    @property
    def agreed(self) -> bool:
        return self.decision is not None and self.decision.agreed

    @property
    def seen(self) -> Risk | None:
        """Of what the server will see."""
        return self.sums if self.sealed else self.upload

    @property
    def smallest(self) -> int:
        """Training nodes of the smallest class that occurs."""
        return min((count for count in self.counts.values() if count), default=0)


def measure_egress(
    job: Job, site: Site, kept: KeptModel, content: bytes, overlaps: Sequence[str], *, device: str
) -> Egress:
    """Attack the very bytes that would leave, and the sums that they would become a part of.

    `overlaps` say what it tells together with what this site sealed before.
    """
    graph, federation = site.graph, job.federation
    alone = replace(federation, sealed=False, clients=0)
    message = kept.message
    if job.sealed:  # what is under the masks
        message = federation.method.share(kept.kept.local, graph, alone)
    explained = federation.method.explain(Messages([message]), alone)
    sums = None
    if kept.about.seconds <= SLOW:
        parties = len(job.participants) or job.minimum
        reading = attacks.sums_with(message, graph, alone, parties, device)
        sums = None if reading is None else attacks.attack(reading, graph, alone)
    counts = graph.training_counts(job.model.classes).tolist()
    keys = {name: signatures.fingerprint(key).hex() for name, key in job.keys.items()}
    names = {"features": job.features, "classes": job.classes}
    signature = signatures.TRAILER * job.signed
    disclosed = disclosure.disclosure(
        kept.message, federation, signature=signature, graph=graph, **names
    )
    return Egress(
        job=job.name,
        digest=job.digest,
        method=job.method,
        name=kept.about.name,
        sha256=signatures.sha256_of(content),
        bytes=len(content),
        parties=keys or dict.fromkeys((*job.participants, SERVER), "no key"),
        sealed=job.sealed,
        counts=dict(zip(class_names(job), counts, strict=True)),
        upload=attacks.attack(explained.reading(), graph, alone),
        sums=sums,
        disclosed=replace(disclosed, sentences=(*disclosed.sentences, *overlaps)),
        trained=kept.about.trained,
        seconds=kept.about.seconds,
        edition=job.number,
    )


def decide(
    report: Egress,
    job: Job,
    policy: Policy | None,
    keep: Path,
    *,
    editions: bool,
    tell: Callable[[Egress], object],
    ask: Callable[[], bool],
    by: str,
) -> Egress:
    """The report with the decision, which goes into the site's log and into the files beside `keep`.

    An upload beyond a limit is refused whatever a person says, with a PolicyError. Within them the
    policy may agree by itself, otherwise `ask` does; what was agreed to before is only told again.
    """
    if not report.agreed:
        limits = policy.limits(job, report.smallest, report.seen, editions) if policy else ()
        report = replace(report, limits=tuple(limits), editions=editions, decision=None)
        write_egress(keep, report)  # to be read before anybody is asked
    tell(report)
    if report.agreed:
        return report
    broken = [f"{limit.rule} ({limit.found})" for limit in report.limits if not limit.kept]
    if broken or (policy is not None and policy.agree):
        agreed, by = not broken, "the site's policy"
    else:
        agreed = ask()
    entry = {key: getattr(report, key) for key in ("job", "digest", "name", "bytes")}
    entry |= {"upload": report.sha256, "membership": report.seen.auc if report.seen else None}
    entry |= {"agreed": agreed, "by": by, "reasons": broken}
    report = replace(report, decision=Decision(agreed, by, append_decision(entry)))
    write_egress(keep, report)
    if broken:
        raise PolicyError(
            f"the site's policy does not let this upload go: {'; '.join(broken)}. Nothing was written "
            f"for sending; {egress_files(keep, report.name)[1]} has all that was measured"
        )
    return report


def egress_files(keep: Path, name: str) -> tuple[Path, Path]:
    """NAME.egress.json and .html, beside what is kept: neither is for sending."""
    return keep.with_name(f"{name}.egress.json"), keep.with_name(f"{name}.egress.html")


def write_egress(keep: Path, report: Egress) -> None:
    """Both files, readable by their owner only."""
    data = json.dumps(records.plain_record(report), indent=1) + "\n"
    texts = (data, reports.render_page(egress_document(report)))
    for path, text in zip(egress_files(keep, report.name), texts, strict=True):
        atomic.write(path, text.encode(), private=True)


def earlier_egress(keep: Path, name: str, job: Job, content: bytes) -> Egress | None:
    """What was measured of these very bytes before.

    Another job's record is kept, as NAME.egress-DIGEST: its upload may be asked about.
    """
    files = egress_files(keep, name)
    try:
        earlier = records.load_record(Egress, files[0], LARGEST, FORMAT)
    except FileError:  # there is none, or it is damaged and can be made again
        return None
    if earlier.agreed and earlier.digest != job.digest:
        for path in reversed(files):  # the record last: it says whose they are
            if path.exists():
                path.replace(path.with_name(f"{name}.egress-{earlier.digest[:16]}{path.suffix}"))
    return earlier if earlier.sha256 == signatures.sha256_of(content) else None


KNOWN = "Compare fingerprints with keys that you got another way (--known FILE)."
PURPOSE = "The server merges all uploads; this site weighs what comes back against its own model."
ATTACKER = (
    "The attacker holds the message and, to ask whether a node was trained on, the node with its "
    "edges and label. Fitted on nine other sites, an attack reached an AUC up to 0.03 higher."
)
SUMS = "In the sums, a model of this site's own validation nodes stands for others: real sums tell less."
MEMBERSHIP = "A node was trained on, {} (AUC)"
ROWS = {  # of the table of attacks: what guessing gives, digits, title
    "loss": (0.5, 2, MEMBERSHIP.format("by its loss")),
    "moments": (0.5, 2, MEMBERSHIP.format("by the moments")),
    "row": (0.5, 2, MEMBERSHIP.format("by its row")),
    "features": (0.5, 2, MEMBERSHIP.format("by its class's features")),
    "combined": (0.5, 2, MEMBERSHIP.format("all combined, on held-out nodes")),
    "labels": (0, 2, "Your label histogram (correlation)"),
    "words": (0.5, 2, "Which features occur at training nodes (AUC)"),
    "absent": (0, 0, "Features said to occur at no training node"),
    "rare": (0, 0, "Features of one to four training nodes shown to occur"),
    "read_whole": (0, 0, "Training nodes whose features are read whole"),
}


def risk_table(report: Egress) -> Table:
    """Each attack on the upload and on the sums, and what guessing gives."""
    rows: list[list[Cell]] = []
    for key, (guess, digits, title) in ROWS.items():
        risks = ({} if r is None else vars(r) | r.membership for r in (report.upload, report.sums))
        own, sums = (risk.get(key) for risk in risks)
        if own is not None:
            values = ("–" if v is None else f"{v:.{digits}f}" for v in (own, sums, guess))
            rows.append([title, *values])
    own_part = "If all others tell their parts" if report.sealed else "This upload"
    heads = ["What an attack tells", own_part, "The sums alone", "Guessing"]
    return Table.of("Attacks on these very bytes", heads, rows, words=0)


def item_table(sent: Disclosure) -> Table:
    """The tensors of an upload, and what is around them."""
    rows: list[list[Cell]] = [
        [item.name, " × ".join(map(str, item.shape)), f"{item.bytes:,}", item.words]
        for item in sent.items
    ]
    envelope = sent.frame - sum(item.bytes for item in sent.items)
    rows.append(["", "", f"{envelope:,}", "envelope: names, shapes, checksums"])
    if sent.signature:
        rows.append(["", "", f"{sent.signature:,}", "your signature (security overhead)"])
    return Table.of("", ["Tensor", "Shape", "Bytes", "What it is"], rows)


def egress_document(report: Egress) -> reports.Document:
    """The page, section by section as an output checker asks."""
    decision, risk = report.decision, report.seen
    decided = [("Decision", "waits, and nothing was written for sending")]
    if decision is not None:
        state = f"{'agreed to' if decision.agreed else 'refused'} by {decision.by}"
        decided = [("Decision", state), ("In the log", decision.audit)]
    headline = [(f"{report.bytes:,}", "bytes"), (str(len(report.parties) - 1), "sites take part")]
    if risk is not None and risk.auc is not None:
        meaning = "AUC: a node was trained on, best attack on what is seen"
        headline.append((f"{risk.auc:.2f}", meaning))
    headline.append((str(report.smallest), "training nodes in the smallest class"))
    later = " and, unless it is withdrawn, later ones" if report.editions else ""
    purpose = {
        "Job": report.job,
        "Digest": report.digest,
        "Method": report.method,
        "Edition": f"{report.edition}{later}",
        "Trained": f"{report.trained}, {report.seconds:.1f} s",
    }
    reader = f"the server, reads {'sums over all sites' if report.sealed else 'every upload'}"
    parties = [
        (name, reader if name == SERVER else "takes part", key)
        for name, key in report.parties.items()
    ]
    signed = "no key" not in report.parties.values()
    controls = {
        "Sealed": "yes, the server sees sums" if report.sealed else "no",
        "Signed": "yes, good for this job and this sender alone" if signed else "no",
        "Sent": "once; the same job takes no second upload",
        "Formal privacy": "none is promised",
        "Limits": "below" if report.limits else "this site has set none (policy.toml)",
    }
    verdicts = {True: "holds", False: "fails"}
    limits = (reports.Finding(one.rule, verdicts[one.kept], one.found) for one in report.limits)
    everybody, heads = "Everybody whom the job names", ["Name", "Role", "Fingerprint of its key"]
    sections: dict[str, tuple[Block, ...]] = {
        "What leaves": (
            Text(f"{report.bytes:,} bytes, SHA-256 {report.sha256}."),
            item_table(report.disclosed),
            *map(Text, report.disclosed.sentences),
        ),
        "To whom": (Table.of(everybody, heads, parties, words=3), Text(KNOWN)),
        "For what": (Facts(tuple(purpose.items())), Text(PURPOSE)),
        "Risk": (
            risk_table(report),
            Text(f"{ATTACKER} {SUMS}" if report.sums else ATTACKER),
            Facts(tuple((f"Trained on {name}", f"{n:,}") for name, n in report.counts.items())),
        ),
        "Controls": (Facts(tuple(controls.items())), reports.Findings(tuple(limits))),
        "Decision": (Facts(tuple(decided)),),
    }
    return reports.Document(
        f"Egress report: {report.name}",
        f"One upload for job {report.job}: {decided[0][1]}. This page stays at the site: it has counts "
        "of training nodes.",
        tuple(headline),
        tuple(Section(title, blocks) for title, blocks in sections.items()),
    )
