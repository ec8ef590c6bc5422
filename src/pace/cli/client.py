"""`pace client`: what a site does. Only its own files are read, only the upload is for sending."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import ne
from pathlib import Path
from typing import Annotated, Any

import typer

import pace
from pace.cli import given
from pace.cli.given import argument, option
from pace.cli.tables import Tables, codebook_of, columns, import_for, tell
from pace.errors import FileError, SettingError
from pace.io import plain_record, shown, untrusted
from pace.io import terminal as console

Model_folder = Annotated[Path, argument("A model folder.")]
Any_graph = Annotated[Path | None, argument("Any .graph file with the same features.")]
Nodes = Annotated[Path | None, option("In place of a graph: a table of nodes, .csv or .parquet.")]
Rows = Annotated[Path | None, option("Instead of a graph: what `pace rows` makes.", "FOLDER")]
Edges = Annotated[Path | None, option("Its table of edges.")]
OVERLAPPING = "Agree to what this and earlier sealed jobs tell together."
LATER = "Sign that the upload may serve later editions too."
Edition_file = Annotated[Path | None, option("The job's edition you are in, if not the first.")]

client = typer.Typer()


@client.command()
def fit(
    job_file: given.Job_file,
    keep: Annotated[Path, option("Where Local stays; never send it.")],
    upload: Annotated[Path, option("The file to send, such as mine.up.")],
    graph: Annotated[Path | None, argument("Your own .graph file.")] = None,
    nodes: Nodes = None,
    edges: Edges = None,
    mapping: given.Mapping = None,
    rows: Rows = None,
    key: Annotated[Path | None, option("Your private key, if the job has keys.")] = None,
    policy: Annotated[Path | None, option("The site's limits (default: policy.toml).")] = None,
    known: Annotated[Path | None, option("Keys of others that you got another way.")] = None,
    least_known: Annotated[int, option("How many of the others must be among them.", "N")] = 2,
    yes: Annotated[bool, option("Agree to what will leave the site.", "", "--yes")] = False,
    overlapping: Annotated[bool, option(OVERLAPPING, "", "--overlapping")] = False,
    edition: Edition_file = None,
    editions: Annotated[bool, option(LATER, "", "--editions")] = False,
    without_promise: given.Without_promise = False,
    device: given.Device = "auto",
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Train on your own graph, keep Local, and write the one upload.

    Before it is written, the upload is attacked: NAME.egress.html beside --keep says what leaves, to
    whom, for what and at what risk. It leaves if you agree, or if the site's policy.toml does; a limit
    of the policy that is passed stops it. Every decision goes into the site's log (`pace client audit`).

    Run again, it gives the same upload without training again. With `--nodes` and `--edges`, the graph
    is first made of these tables, by the job's codebook. With `--rows`, for jobs of pace-ridge
    and its kind, rows that a warehouse computed are read in one pass, however many there are.

    pace client fit job.pace mine.graph --keep mine.local --upload mine.up
    pace client fit job.pace mine.graph --nodes patients.csv --edges links.csv
    --keep mine.local --upload mine.up
    pace client fit job.pace --rows mine.rows --keep mine.local --upload mine.up
    pace client fit job.pace mine.graph --keep mine.local --upload mine.up
    --key mine.key --edition job.2.edition --editions
    """
    limits = pace.files.read_policy(policy)
    if not (yes or (limits and limits.agree) or sys.stdin.isatty()):
        raise SettingError("no terminal to ask at: read what will be sent, then give --yes")
    inputs = {"the job": job_file, "the graph": graph, "--rows": rows, "--key": key}
    pace.files.apart(inputs | {"--keep": keep, "--upload": upload})
    job = job_in(job_file, edition)
    pace.jobs.check_promise(job, agreed=without_promise)
    name, _ = pace.files.identity(job, upload, key)  # before a large graph is read for nothing
    if known is not None:
        pace.files.check_known(job, name, known, least_known)
    to = console.console(stderr=as_json)
    import_for(job, graph, (nodes, edges), mapping, to)
    if graph is not None:
        given.foretell(pace.forecast.forecast_fit(graph, job.federation))
    site = site_of(graph, rows, job)
    warnings = [] if rows else site_warnings(site, job)
    again, epochs = keep.exists(), job.federation.recipe.epochs
    records = pace.files.egress.egress_files(keep, name)

    def tell(report: pace.files.Egress) -> None:
        waiting.close()
        if site.drawn and not as_json:
            shares = "/".join(f"{100 * share:.0f}" for share in site.drawn)
            to.print(f"{graph} has no split: train, validation and test were drawn, {shares}.")
        to.print(*(f"Warning: {warning}" for warning in warnings), style="yellow")
        show_egress(report, upload, to)
        if job.signed and not job.sealed:
            later = ", and in later ones unless you withdraw" if report.editions else ""
            to.print(f"Your signature lets it be merged in edition {job.number}{later}.")
        to.print(f"All of it: {records[1]}")

    with ExitStack() as waiting:
        report = pace.files.fit_files(
            job,
            site,
            keep,
            upload,
            key=key,
            device=given.device(device),
            overlapping=overlapping,
            editions=editions,
            policy=limits,
            tell=tell,
            confirm=lambda: yes or typer.confirm(shown(f"Write {upload}?"), err=as_json),
            by="a person, by --yes" if yes else "a person, when asked",
            progress=waiting.enter_context(console.progress(epochs, "Training")),
        )
    if report is None:
        console.say("Nothing was written for sending.", err=True)
        raise typer.Exit(1)
    console.answer(
        {**plain_record(report), "again": again, "warnings": warnings},
        "The same upload as before." if again else f"Trained in {report.seconds:.1f} s.",
        f"Written: {keep} (keep it here)",
        f"Written: {upload} (send it to the server)",
        *(f"Written: {path} (for your records)" for path in records),
        f"SHA-256 of the upload: {report.sha256[:32]} …",
        as_json=as_json,
    )


def job_in(job_file: Path, edition: Path | None) -> pace.jobs.Job:
    """The job, in the edition that a site is in."""
    job = pace.jobs.read_job(job_file)
    return job if edition is None else pace.jobs.read_edition(edition, job)


def site_warnings(site: pace.files.Site, job: pace.jobs.Job) -> list[str]:
    """What a person should know of a site's graph before it is trained on."""
    train, val, test = (int(getattr(site.graph, mask).sum()) for mask in pace.graph.MASKS)
    warnings = [pace.datasets.few_labels(train, val, test, job.model.classes)]
    if job.codebook is None:
        warnings.insert(0, pace.tables.unscaled_features(site.graph.x, job.features))
    return [*filter(None, warnings)]


def site_of(
    graph: Path | None, rows: Path | None, job: pace.jobs.Job, *, sample: bool = False
) -> pace.files.Site:
    given.one_thread()
    if graph is not None and rows is None:
        return pace.files.load_any(graph, job)
    if rows is not None and graph is None:
        return pace.files.load_rows(rows, job, sample=sample)
    raise SettingError("give a .graph file, or --rows with a folder of Parquet files")


def show_egress(report: pace.files.Egress, upload: Path, to: console.Console) -> None:
    """What will leave the site and to whom, in plain words and bytes, and what attacks learn from it."""
    sent, risk, attack = report.disclosed, report.seen, "could not be asked"
    if risk is not None and risk.auc is not None:
        attack = f"is told with an AUC of {risk.auc:.2f} (0.5 is guessing)"
    parties = ", ".join(f"{name} ({key})" for name, key in report.parties.items())
    to.print(
        f"What will leave this site: {upload.name}, {sent.frame + sent.signature:,} bytes "
        f"({100 * sent.share:.1f}% of the model's {sent.dense:,})",
        pace.files.egress.item_table(sent),
        *sent.sentences,
        f"Attacked here before it leaves: whether a node was trained on {attack}.",
        pace.files.egress.risk_table(report),
        f"It goes to the server; the job names: {parties}.",
        *(f"Policy: {limit.rule}: {limit.found}." for limit in report.limits),
    )


@client.command()
def audit(
    log: Annotated[Path | None, argument("A log (default: the user's egress.log).")] = None,
    head: Annotated[str, option("A hash that must be in it, such as a report's.", "HASH")] = "",
    as_json: given.As_json = False,
) -> None:
    """Verify the log of decisions on what left the site: every line holds the hash of the one before.

    pace client audit
    pace client audit --head 9f2c4e...
    """
    path = log or pace.files.egress.log_file()
    if not path.exists():
        raise FileError(f"{path} not found: nothing was decided by this user yet")
    count, last = pace.files.egress.verify_log(path, head)
    console.answer(
        {"log": str(path), "decisions": count, "head": last},
        f"{path}: {console.many(count, 'decision')}, and the chain is whole.",
        f"Head: {last} (keep it elsewhere: a log that is cut off lacks it)",
        as_json=as_json,
    )


@client.command()
def adopt(
    job_file: given.Job_file,
    kept: Annotated[Path, option("What `pace client fit` kept.")],
    returned: Annotated[Path, option("What the server sent back.", "FILE", "--return")],
    out: Annotated[Path, option("The model folder to write.", "FOLDER")],
    graph: Annotated[Path | None, argument("The .graph file you trained on.")] = None,
    rows: Rows = None,
    nodes: Annotated[Path | None, option("New nodes to predict with it: a table.")] = None,
    edges: Annotated[Path | None, option("Their edges, also to those of the graph.")] = None,
    without_roll: Annotated[
        bool, option("Adopt without knowing who was in.", "", "--without-roll")
    ] = False,
    withdrawal: given.Withdrawals = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Apply the server's return to Local, decide how much of it to admit, write the model.

    The roll that came with the return says whose uploads were merged; it is checked and kept.

    The return of a later edition takes the place of the model, which is kept beside it. New nodes of
    `--nodes` and `--edges` are predicted at once, as `pace client predict` does, beside the model.

    pace client adopt job.pace mine.graph --kept mine.local --return mine.down --out mine.model
    pace client adopt job.pace mine.graph --kept mine.local --return mine.down
    --out mine.model --nodes new.csv --edges new_links.csv
    """
    job, predictions = pace.jobs.read_job(job_file), out.parent / f"{out.stem}.predictions.csv"
    roll, layout = returned.with_suffix(pace.jobs.ROLL_SUFFIX), pace.protocol.layouts.return_layout
    own = kept.with_suffix(pace.jobs.WITHDRAWAL_SUFFIX)
    if (nodes or edges) and predictions.exists():
        raise FileError(f"{predictions} already exists: move it, or predict with another --out")
    outcome = pace.files.adopt_files(
        job,
        site_of(graph, rows, job, sample=True),
        kept,
        out,
        returned=untrusted.read_exact(returned, pace.jobs.exact_size(job, layout)),
        roll=None if without_roll else untrusted.read(roll, pace.jobs.LARGEST),
        withdrawals=[*(withdrawal or []), *filter(Path.exists, [own])],
    )
    changes = pace.files.edition_changes(out, outcome)
    record, imported = dict[str, Any](), None
    if nodes or edges:
        model = pace.files.read_model(out)
        site, imported = read_site(model, None, (nodes, edges), known=graph, mapping=None)
        record = write_answers(model, [site], predictions, replaces=False)
    console.answer(
        {**plain_record(outcome), "model": str(out), "changes": changes, **record},
        lambda: show_outcome(outcome, job, changes),
        f"Written: {out} (start with its index.html)",
        *([lambda: show_predicted(record, imported)] if record else []),
        as_json=as_json,
    )


def show_outcome(outcome: pace.files.Outcome, job: pace.jobs.Job, changes: list[str]) -> None:
    """The verdict, the decision, who was in, and the scores."""
    to, scores = console.console(), outcome.validation
    for item in pace.files.findings(outcome):
        to.print(f"{item.statement} {item.evidence}", style=pace.files.STYLES.get(item.verdict))
    lines = [f"{outcome.decision}.", *pace.jobs.roll_sentences(outcome.roll, job), *changes]
    if scores.local.nll is not None:
        lines.append(
            f"NLL on {scores.nodes:,} validation nodes: {scores.local.nll:.4f} with Local, "
            f"{scores.adopted.nll:.4f} now."
        )
    to.print(*lines, *outcome.noticed)
    if outcome.test.nodes:
        show_scores(outcome.test, to)


@client.command("withdraw")
def withdraw_upload(
    job_file: given.Job_file,
    kept: Annotated[Path, option("What `pace client fit` kept.")],
    key: Annotated[Path, option("Your private key.")],
    out: Annotated[Path | None, option("The file to send (default: beside --kept).")] = None,
    reason: Annotated[str, option("Why; everybody will read it.", "TEXT")] = "",
    edition: Edition_file = None,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Sign that you leave the job: the server deletes your upload and merges again without it.

    Send the file to the server and, so that they notice if it is ignored, to the other sites.

    pace client withdraw job.pace --kept mine.local --key mine.key --reason "data recalled"
    """
    path, job = out or kept.with_suffix(pace.jobs.WITHDRAWAL_SUFFIX), job_in(job_file, edition)
    name, upload = pace.files.withdraw_files(job, kept, path, key=key, reason=reason)
    console.answer(
        {"name": name, "upload": upload, "withdrawal": str(path)},
        f"Written: {path} (send it to the server; the other sites may have it too)",
        "What cannot be undone: models already adopted, and copies outside its journal.",
        as_json=as_json,
    )


def show_scores(scores: pace.files.MaskScores, to: console.Console) -> None:
    table = pace.files.score_table(f"{scores.mask}: {scores.nodes:,} nodes", scores)
    to.print(table, *filter(None, [table.note]))


def read_site(
    model: pace.files.SiteModel, graph: Path | None, tables: Tables, **more: Any
) -> tuple[pace.files.Site, pace.tables.Imported | None]:
    """A graph file, or two tables by the codebook of the model's job.

    `more` are fields of `pace.tables.Columns`, of which `known` and `mapping` are files.
    """
    nodes, edges = tables
    if more["known"] is not None and nodes is None:
        raise SettingError("--with goes with --nodes and --edges: a .graph has all its nodes")
    if graph is not None and nodes is None and edges is None:
        return pace.files.load_any(graph, model.job), None
    if graph is not None or nodes is None or edges is None:
        raise SettingError("give a .graph file, or both --nodes and --edges")
    more["mapping"] = more["mapping"] or model.mapping
    rules, book = columns(**more), codebook_of(model.job)
    imported = pace.tables.import_graph(nodes, edges, rules, codebook=book)
    return pace.files.site_of_dataset(imported.dataset, model.job, nodes, imported.rows), imported


@client.command()
def predict(
    model: Model_folder,
    out: Annotated[Path, option("The table to write: .csv or .parquet.")],
    graph: Any_graph = None,
    nodes: Nodes = None,
    edges: Edges = None,
    known: given.With = None,
    mapping: given.Mapping = None,
    rows: Rows = None,
    id_column: given.Id_column = None,
    strangers: given.Strangers = "refuse",
    replace: given.Replace = False,
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Predict every node of a graph, known or new: PACE's answer, and Local's beside it.

    Tables go in as they are, by the codebook of the model's job. The column `split` says which nodes
    the model was trained on (train), validated by (val) and has never seen (new), whatever their order.
    New nodes that are linked to old ones are predicted best beside them: `--with` names your graph.

    pace client predict mine.model mine.graph --out predictions.csv
    pace client predict mine.model --rows mine.rows --out predictions.parquet
    pace client predict mine.model --nodes new.csv --edges new_links.csv
    --with mine.graph --out predictions.csv
    """
    given.one_thread()
    adopted, imported = pace.files.read_model(model), None
    if rows is not None:
        if graph or nodes or edges:
            raise SettingError("give --rows, or a graph, or both --nodes and --edges")
        sites: Iterable[pace.files.Site] = pace.files.RowFiles.found(rows, adopted.job).sites()
    elif graph is not None and pace.datasets.is_folder(graph) and not (nodes or edges):
        sites = pace.files.mapped_sites(graph, adopted.job)
    else:
        named = {"known": known, "mapping": mapping, "id": id_column, "strangers": strangers}
        site, imported = read_site(adopted, graph, (nodes, edges), **named)
        sites = [site]
    record = write_answers(adopted, sites, out, replaces=replace)
    remarks = imported.remarks() if imported else {"notes": [], "changes": [], "warnings": []}
    console.answer(record | remarks, lambda: show_predicted(record, imported), as_json=as_json)


def write_answers(
    model: pace.files.SiteModel, sites: Iterable[pace.files.Site], out: Path, *, replaces: bool
) -> dict[str, Any]:
    """Write the predictions of all nodes, and count them."""
    counts, differ = Counter[str](), Counter[bool]()

    def tables() -> Iterator[dict[str, list[Any]]]:
        for site in sites:
            table = pace.files.model.prediction_table(model, site)
            counts.update(table["split"])
            differ.update(map(ne, table["class"], table["local_class"]))
            yield table

    pace.files.model.write_predictions(out, tables(), replaces=replaces)
    record = {"predictions": str(out), "nodes": counts.total(), "differ_from_local": differ[True]}
    return record | {"alpha": model.outcome.alpha, "split": counts}


def show_predicted(record: dict[str, Any], imported: pace.tables.Imported | None) -> None:
    if imported is not None:
        tell(imported, console.console())
    differ = record["differ_from_local"]
    console.say(f"{record['nodes']:,} nodes; on {differ:,} of them PACE differs from Local.")
    listed = ", ".join(f"{name} {count:,}" for name, count in record["split"].items())
    console.say(f"When the model was made they were: {listed}.")
    console.say(f"Written: {record['predictions']}")


@client.command()
def evaluate(
    model: Model_folder,
    graph: Any_graph = None,
    on: Annotated[str, option("Which nodes: train, val, test, new or all.", "NAME")] = "test",
    nodes: Nodes = None,
    edges: Edges = None,
    known: given.With = None,
    mapping: given.Mapping = None,
    id_column: given.Id_column = None,
    strangers: given.Strangers = "refuse",
    allow: given.Allow = None,
    as_json: given.As_json = False,
) -> None:
    """Score PACE against Local on labelled nodes of a graph.

    The model remembers by id whom it was trained on: `test` are nodes that it was not, also in a table
    that was exported again in another order.

    pace client evaluate mine.model mine.graph
    pace client evaluate mine.model --nodes new.csv --edges new_links.csv --on new
    """
    named = {"known": known, "mapping": mapping, "id": id_column, "strangers": strangers}
    given.one_thread()
    adopted = pace.files.read_model(model)
    site, _ = read_site(adopted, graph, (nodes, edges), **named)
    scores = adopted.evaluate(site, on)
    plain = {"alpha": adopted.outcome.alpha, **plain_record(scores)}
    console.answer(plain, lambda: show_scores(scores, console.console()), as_json=as_json)
