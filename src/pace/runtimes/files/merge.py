"""The server's step: accept or refuse every upload, decide once, answer from the journal, report."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from unicodedata import normalize

from pace import jobs
from pace.errors import FileError, LateError, PaceError, SettingError, SignatureError, TooFewError
from pace.io import atomic, records, shown, untrusted
from pace.jobs import SERVER, UP, Brought, Influence, Job, Journal, Refusal, editions, signatures
from pace.protocol import Received, steps
from pace.reports import Cell, Document, Section, Table, Text

UNWEIGHED = "The job is sealed, or its method has no weights: no client's influence can be seen."
REMAINS = [
    "The upload was deleted from the server's journal; its SHA-256, the time and the reason are kept. "
    "The returns of this edition are those of a merge that never saw it.",
    "The returns of earlier editions were deleted there too. What this cannot undo: copies outside the "
    "journal, such as an inbox or a backup; models that sites have adopted, until they adopt again; "
    "and that who kept returns of both editions can subtract them.",
]
BROUGHT_NOTE = (
    "Squared loss a label of {regression}: on the site of what the others learn without it, and how far "
    "theirs would rise without it. Shapley values ({error}) sum to the share of labels explained."
)
NOTES = "Influence: mean weight in the consensus. Norm: the update's against the median client's."


@dataclass(frozen=True, kw_only=True)
class TookPart(Influence):
    name: str
    sha256: str  # of its upload


@dataclass(frozen=True, kw_only=True)
class MergeReport:
    """What became of a job at the server; `report.json`."""

    format: str = "pace-merge-report-1"
    job: dict[str, str]  # its name and digest
    sealed: bool = False  # whether the server saw sums only
    merged: bool
    waiting: str | None  # why nothing was merged yet
    took_part: tuple[TookPart, ...]
    here: tuple[str, ...]  # whose uploads are in the journal
    missing: tuple[str, ...]  # participants of whom there is no upload
    refused: tuple[Refusal, ...]  # in this run
    bytes: jobs.MessageSizes
    brought: Brought | None = None  # what each site brought, where the method lets that be seen
    edition: int = 1
    new: tuple[str, ...] = ()  # who came with this edition
    left: tuple[str, ...] = ()  # who left with it; their uploads are deleted


@dataclass(frozen=True)
class Changes:
    """What the next edition of a job changes."""

    added: Mapping[str, str] = field(default_factory=dict)  # public keys by name
    withdrawn: Sequence[Path] = ()  # signed withdrawals
    removed: Sequence[str] = ()  # whom the server takes off the list

    def begin(self, book: Journal, key: signatures.Key | None) -> Journal:
        """The journal in the next edition; a change that was made before is not made again."""
        job = book.job
        editions.check_editions(job)
        assert key is not None  # a job with keys has the server's
        signed = [editions.read_withdrawal(path, job) for path in self.withdrawn]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        present, removed = book.accepted(), {}
        for name in self.removed:
            upload = editions.Evidence.of(book.stored(name)).upload if name in present else ""
            left = (job.number + 1, job.keys.get(name, ""), upload, "", now)
            removed[name] = editions.Leaver(*left, withdrew=False)
        edition = editions.next_edition(job, self.added, {one.name: one for one in signed}, removed)
        return book if edition is None else book.begin_edition(edition, key)


def upload_files(paths: Sequence[Path]) -> list[Path]:
    """The upload files: those named, and those in the folders named, in the order of their names."""
    files: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise FileError(f"{path} not found: give uploads, or the folder they are in")
        files |= set(path.glob(f"*{UP}")) if path.is_dir() else {path}
    return sorted(files, key=lambda path: (path.name, str(path)))


def sender(path: Path) -> str:
    """Who the file's name says it is from, fit to be printed."""
    return shown(normalize("NFC", path.name.removesuffix(UP)))  # some disks take letters apart


def take(path: Path, book: Journal) -> Refusal | None:
    """Accept one upload, or write down why not; durable after the journal's `settle`."""
    name, content = sender(path), None
    try:
        content = untrusted.read_exact(path, jobs.exact_size(book.job))
        book.accept(jobs.admit(content, name, book.job), settled=False)
    except PaceError as error:  # one that cannot be read must not stop the others
        return book.refuse(name, content, error, settled=False)
    return None


def merge_files(
    job: Job,
    paths: Sequence[Path],
    *,
    journal: Path,
    out: Path,
    key: Path | None = None,
    changes: Changes | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> MergeReport:
    """Take in the uploads and, if they are enough, write NAME.down, NAME.roll and the report to `out`.

    Everything is in the journal before it counts: after a crash the same call gives the same bytes.
    It is the newest edition's uploads that are merged; `changes` begin the next one before.
    """
    signer, files = server_key(job, key), upload_files(paths)
    refused = []
    with Journal.working(journal, job) as book:
        if changes is not None:
            book = changes.begin(book, signer)
        job = book.job
        atomic.sweep(out)
        put_edition(book, out)
        for path in files:
            progress(f"upload {sender(path)}")
            if refusal := take(path, book):
                refused.append(refusal)
        book.settle()  # before anything is decided or said of them
        try:
            decided = book.close()
        except TooFewError as error:
            return merge_report(book, refused, None, waiting=str(error))
        late = f"the job was closed with {len(decided)} uploads, without it"
        after = [name for name in book.accepted() if name not in decided]  # while it was decided
        refused += [Refusal(LateError.code, late, name) for name in after]
        uploads = steps.received(book.frames(), job.federation)
        names, roll = make_returns(book, signer, uploads), jobs.roll_writer(book, signer)
        for name in names:
            returned = book.returned(name)
            _put(out / f"{name}{jobs.DOWN}", returned)
            _put(out / f"{name}{jobs.ROLL_SUFFIX}", roll(name, returned))
            progress(f"return to {name}")
        put_certificates(book, out, signer)
        report = merge_report(book, refused, uploads)
        write_report(out, report)
    return report


def _put(path: Path, content: bytes) -> None:
    """Write a file for a party; never replace another."""
    if not atomic.create(path, content, settled=False) and not untrusted.same(path, content):
        raise FileError(f"{path} is another file: move it or choose another --out")


def put_edition(book: Journal, out: Path) -> Path | None:
    """Write a later edition's signed record to `out`, for those who are new; its file."""
    if book.job.edition is None:
        return None
    path = out / f"{book.job.name}.{book.job.number}{editions.EDITION_SUFFIX}"
    _put(path, (book.room / "edition").read_bytes())
    return path


def put_certificates(book: Journal, out: Path, key: signatures.Key | None) -> None:
    """For each who left with this edition: signed, who was merged before and now, and what remains."""
    edition = book.job.edition
    if edition is None or key is None:
        return
    for name, leaver in edition.gone.items():
        earlier = book.decided(edition.number - 1)
        before = earlier.uploads if earlier else {}
        record = {
            "format": "pace-certificate-1",
            "job": book.job.digest,
            "name": name,
            "edition": book.job.number,
            "left": records.plain_record(leaver),
            "merged_before": before,
            "merged_now": book.decision(),
            "sentences": REMAINS if name in before else REMAINS[:1],
        }
        content = json.dumps(record, indent=1, sort_keys=True).encode() + b"\n"
        statement = {"kind": signatures.CERTIFICATE, "job": book.job.digest, "name": name}
        _put(out / f"{name}.certificate", signatures.sign(content, key, **statement))


def server_key(job: Job, path: Path | None) -> signatures.Key | None:
    """The key that signs returns, which must be the one the job lists."""
    if not job.signed:
        return None
    if path is None:
        raise SettingError("this job's returns are signed: give the server's key with --key")
    key = signatures.load_key(path)
    if signatures.public_key(key) != job.keys[SERVER]:
        raise SignatureError(f"{path} is not the server's key of this job")
    return key


def make_returns(book: Journal, key: signatures.Key | None, uploads: Received) -> list[str]:
    """Make the returns that are not there yet; the names of all who get one, in order."""
    job, names = book.job, sorted(book.decision() or {})
    if not all(map(book.has_return, names)):
        for name, frame in zip(names, steps.returns(uploads, job.federation), strict=True):
            if key is not None:
                kind = editions.signed_as(signatures.RETURN, job.number)
                frame = signatures.sign(frame, key, kind=kind, job=job.digest, name=name)
            book.put_return(name, frame)
        if (brought := jobs.disclosure.brought(uploads, job.federation, names)) is not None:
            book.put_brought(brought)
        book.settle()  # before anybody sees one of them
    return names


def merge_report(
    book: Journal, refused: Sequence[Refusal], uploads: Received | None, waiting: str | None = None
) -> MergeReport:
    """The report; without `uploads`, that of a job which is waiting for some."""
    job, decided = book.job, (book.decision() or {}) if uploads else {}
    weights = jobs.influence(uploads, job.federation) if uploads else []
    return MergeReport(
        job={"name": job.name, "digest": job.digest},
        sealed=job.sealed,
        merged=bool(decided),
        waiting=waiting,
        took_part=tuple(
            TookPart(**vars(weight), name=name, sha256=decided[name])
            for name, weight in zip(sorted(decided), weights, strict=True)
        ),
        here=tuple(book.accepted()),
        missing=tuple(job.missing(decided or book.accepted())),
        refused=tuple(refused),
        bytes=jobs.message_sizes(job),
        brought=book.brought() if uploads else None,
        edition=job.number,
        new=tuple(job.edition.new) if job.edition else (),
        left=tuple(job.edition.gone) if job.edition else (),
    )


def took_part_table(report: MergeReport) -> Table:
    """Whose uploads were merged, with their influence unless uploads are sealed."""
    title, rows = f"Took part: {len(report.took_part)}", []
    for client in report.took_part:
        share = "-" if client.share is None else f"{100 * client.share:.1f}%"
        norm = "-" if client.norm is None else f"{client.norm:.2f}"
        rows.append([client.name, share, norm, "; ".join(client.flags)])
    if all(client.share is client.norm is None for client in report.took_part):
        return Table.of(title, ["Client"], [row[:1] for row in rows], note=UNWEIGHED)
    return Table.of(title, ["Client", "Influence", "Norm", "Look at"], rows, note=NOTES)


def brought_table(brought: Brought) -> Table:
    """What each site brought, and whose upload is worth a look."""
    rows: list[list[Cell]] = []
    for name, alone, shapley in zip(brought.names, brought.alone, brought.shapley, strict=True):
        numbers = (f"{number:.4f}" for number in (alone, brought.given(name), shapley))
        rows.append([name, *numbers, "; ".join(brought.flags(name))])
    error = f"standard error at most {brought.error:.4f}" if brought.error else "over all rolls"
    note = BROUGHT_NOTE.format(regression=brought.regression, error=error)
    heads = ["Site", "Loss when left out", "Gives the others", "Shapley value", "Look at"]
    return Table.of("What each site brought", heads, rows, note=note)


def refused_table(title: str, refusals: Sequence[Refusal]) -> Table:
    rows = [[refusal.sender, refusal.code, refusal.reason] for refusal in refusals]
    return Table.of(title, ["Sender", "Code", "Reason"], rows, words=2)


def merge_sentences(report: MergeReport) -> list[str]:
    """Who came and what it cost, in words."""
    sizes, lines = report.bytes, []
    new, left, missing = map(", ".join, (report.new, report.left, report.missing))
    if report.edition > 1:
        lines.append(f"This is edition {report.edition} of the job. New: {new or 'nobody'}.")
    if left:
        lines.append(f"Left, and their uploads deleted here (an inbox may hold copies): {left}.")
    if report.waiting:
        lines.append(report.waiting)
    elif missing:
        lines.append(f"Merged without {missing}: if they send now, they are refused.")
    upload, returned = sizes.shown(sizes.upload_frame), sizes.shown(sizes.return_frame)
    return [*lines, f"A client's upload has {upload}, its return {returned}."]


def report_tables(report: MergeReport, *more: Table) -> list[Table]:
    """Who took part, more tables such as a round's, what each brought and who was refused."""
    tables = [took_part_table(report), *more]
    if report.brought is not None:
        tables.append(brought_table(report.brought))
    if report.refused:
        tables.append(refused_table(f"Refused in this run: {len(report.refused)}", report.refused))
    return tables


def write_report(folder: Path, report: MergeReport, *more: Table) -> None:
    """The report as data and as a page."""
    tables = report_tables(report, *more)
    summary = Section("Summary", tuple(map(Text, merge_sentences(report))))
    sections = [Section(table.title, (replace(table, title=""),)) for table in tables]
    title, lede = f"Merge report: {report.job['name']}", f"Job {report.job['digest']}"
    page = Document(title, lede, (), (summary, *sections)).markdown()
    data = json.dumps(records.plain_record(report), indent=1) + "\n"
    for name, text in (("report.json", data), ("report.md", page)):
        atomic.sweep(folder / name)
        atomic.write(folder / name, text.encode())
