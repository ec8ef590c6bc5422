"""A job in words: what each participant agrees to by taking part."""

from dataclasses import asdict, dataclass
from textwrap import wrap

from pace import params
from pace.errors import SettingError
from pace.gates import promises
from pace.io import written
from pace.jobs import signatures
from pace.jobs.job import SERVER, Job
from pace.models import in_words
from pace.protocol import layouts
from pace.tables import listed

WRITTEN = {
    "float32": "as float32",
    "float16": "as float16, rounded to three or four digits",
    "int8": "as int8, matrices in 255 steps a row or column and the rest in float16",
}
EVERY_LABEL = (
    "models are fitted to validation labels too: three trainings at every site, on either half and on "
    "both. The paper lets validation labels weigh models, not fit them"
)
SEALED = "pairwise masks: the server sees sums over all participants, and nothing if one is missing"


@dataclass(frozen=True)
class MessageSizes:
    """Bytes of every client's messages: they are known before training."""

    upload_frame: int
    return_frame: int
    signature: int  # what a signature adds to each; 0 in a job without keys
    dense_model: int

    def shown(self, frame: int) -> str:
        """A frame's bytes, and its share of a dense model."""
        return f"{frame:,} bytes ({100 * frame / self.dense_model:.1f}% of a dense model)"


def message_sizes(job: Job) -> MessageSizes:
    return MessageSizes(
        layouts.upload_layout(job.federation).size,
        layouts.return_layout(job.federation).size,
        signatures.TRAILER if job.signed else 0,
        params.size(job.federation.start),
    )


def plain_job(job: Job) -> dict[str, object]:
    digests = {"digest": job.digest, "federation": job.federation.digest.hex()}
    return {**job.content, **digests, "bytes": asdict(message_sizes(job))}


def job_facts(job: Job) -> dict[str, str]:
    """Line by line, for people."""
    recipe, sizes, book = job.federation.recipe, message_sizes(job), job.codebook
    hidden = ", ".join(map(str, job.model.widths[1:-1])) or "none"
    signature = f"; {sizes.signature} more for each signature" if job.signed else ""
    returns = "uploads sealed, returns " if job.sealed else ""
    settings = dict(job.content["method"])
    settings.pop("name")
    code = f" (code of its own, SHA-256 {settings.pop('code')} …)" if "code" in settings else ""
    values = "".join(f", {name} {written(name, value)}" for name, value in settings.items())
    parties = [
        f"{name} ({signatures.fingerprint(job.keys[name]).hex()})" if job.signed else name
        for name in job.participants
    ]
    facts = {
        "digest": " ".join(wrap(job.digest[:32], 4)) + " …",  # to be read out on the telephone
        "in messages": job.federation.digest.hex(),
        "model": f"{job.model.title}, {job.model.features:,} features, hidden widths {hidden}, "
        f"{job.model.classes} classes{in_words(job.model)}",
        "start": f"W_0 from seed {job.seed}, the same at every site",
        "training": f"{recipe.epochs} full-batch steps of {recipe.optimiser}, rate {recipe.rate}, "
        f"weight decay {recipe.decay}",
        "method": f"{job.method}{code}{values}",
        "sent": f"once each way, {returns}{WRITTEN[job.numbers]}: upload "
        f"{sizes.shown(sizes.upload_frame)}, return {sizes.shown(sizes.return_frame)}{signature}",
        "taking part": listed(parties, 12) or "anybody who has this file",
        "merged when": f"{job.minimum} uploads are here; later ones are refused",
        "signatures": "Ed25519, every upload and every return; fingerprints of keys are in brackets, "
        f"the server's is {signatures.fingerprint(job.keys[SERVER]).hex()}"
        if job.signed
        else "none: the server tells uploads apart by their file names",
    }
    if job.federation.method.every_label:
        facts["labels"] = EVERY_LABEL
    if job.sealed:
        facts["sealing"] = SEALED
    named = {"classes": job.classes, "features": job.features}
    if lists := [f"{kind} in order: {listed(names, 12)}" for kind, names in named.items() if names]:
        facts["names"] = "; ".join(lists)
    if book is not None:
        facts["codebook"] = (
            f"{len(book.columns):,} columns become {len(book.features):,} features; `pace graph "
            "import --job` applies it"
        )
    return facts


def check_promise(job: Job, *, agreed: bool) -> None:
    """Refuse a method that takes what comes back whatever it does, unless a person `agreed` to it."""
    if not agreed and not promises(job.federation.method.gate):
        raise SettingError(
            f"the method {job.method} promises nothing: what comes back is used even where it raises "
            "the loss on a site's own validation nodes. It is for experiments; choose pace, or give "
            "--without-promise (of a node on a network: without_promise = true in its node.toml)"
        )
