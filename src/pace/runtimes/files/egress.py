"""The egress report: what leaves a site, to whom, for what, at what risk, under which controls, and who
agreed. In the words of output checkers (SATRE, SACRO); it stays at the site.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pace import reports
from pace.errors import FileError, PolicyError
from pace.io import atomic, records
from pace.jobs import SERVER, Disclosure, Job, disclosure, signatures
from pace.protocol import Messages
from pace.reports import Block, Cell, Facts, Section, Table, Text
from pace.runtimes.files import attacks
from pace.runtimes.files.attacks import Risk
from pace.runtimes.files.model import KeptModel
from pace.runtimes.files.policy import Limit, Policy, append_decision
from pace.runtimes.files.site import Site

FORMAT = "pace-egress-1"
LARGEST = 2**26  # bytes of a report
SLOW = 60.0  # seconds of training above which no second model is trained for the sums


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
    job: Job, site: Site, kept: KeptModel, content: bytes, overlaps: Sequence[str], device: str
) -> Egress:
    """Attack the very bytes that would leave, and the sums that they would become a part of.

    `overlaps` say what it tells together with what this site sealed before.
    """
    graph, federation = site.graph, job.federation
    alone = replace(federation, sealed=False, clients=0)
    message = kept.message
    if job.sealed:  # what is under the masks
        message = federation.method.share(kept.kept.local, graph, alone)
    told = federation.method.explain(Messages([message]), alone)
    risk = attacks.attack(told.reading(), graph, alone)
    sums = None
    if kept.about.seconds <= SLOW:
        parties = len(job.participants) or job.minimum
        reading = attacks.sums_with(message, graph, alone, parties, device)
        sums = None if reading is None else attacks.attack(reading, graph, alone)
    counts = graph.training_counts(job.model.classes).tolist()
    names = job.classes or tuple(map(str, range(job.model.classes)))
    keys = {name: signatures.fingerprint(key).hex() for name, key in job.keys.items()}
    disclosed = disclosure.disclosure(
        kept.message,
        federation,
        signature=signatures.TRAILER if job.signed else 0,
        graph=graph,
        features=job.features,
        classes=job.classes,
    )
    return Egress(
        job=job.name,
        digest=job.digest,
        method=job.method,
        name=kept.about.name,
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        parties=keys or dict.fromkeys((*job.participants, SERVER), "no key"),
        sealed=job.sealed,
        counts=dict(zip(names, counts, strict=True)),
        upload=risk,
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
        limits = policy.limits(job, report.smallest, report.seen, editions) if policy else []
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
        atomic.sweep(path)
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
    return earlier if earlier.sha256 == hashlib.sha256(content).hexdigest() else None


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
        told = "AUC: a node was trained on, best attack on what is seen"
        headline.append((f"{risk.auc:.2f}", told))
    headline.append((str(report.smallest), "training nodes in the smallest class"))
    later = " and, unless it is withdrawn, later ones" if report.editions else ""
    purpose = (
        *(("Job", report.job), ("Digest", report.digest), ("Method", report.method)),
        ("Edition", f"{report.edition}{later}"),
        ("Trained", f"{report.trained}, {report.seconds:.1f} s"),
    )
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
        "For what": (Facts(purpose), Text(PURPOSE)),
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
