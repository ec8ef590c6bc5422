"""A site's node: what its own operator set, and what would keep it from taking part."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pace.errors import EditionError, PaceError, ParticipantError, SettingError, SignatureError
from pace.io import plugins, records

if TYPE_CHECKING:
    from pace.jobs import Job

T = TypeVar("T", bound=Any)
LARGEST = 2**16  # bytes of a file of settings


def read_settings(kind: type[T], path: Path) -> T:
    """The settings of a TOML file, whose paths are relative to it; an error names file and setting."""
    remedy = "correct it, or take the one that was made for you again"
    content = records.load_toml(path, LARGEST, remedy)
    try:
        settings = records.read_record(kind, content, str(path), strict=True)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error
    here, values = path.absolute().parent, vars(settings).items()
    return replace(
        settings, **{name: here / value for name, value in values if isinstance(value, Path)}
    )


@dataclass(frozen=True, kw_only=True)
class Node:
    """A site: its name, job, graph, files and limits. Nothing here ever comes from the server."""

    name: str
    job: Path = Path("job.pace")
    jobs: Path = Path("jobs")  # a folder of more: jobs, and editions and withdrawals of all of them
    graph: Path = Path("mine.graph")
    folder: Path = Path("state")
    key: Path | None = None  # where the job has keys
    device: str = "cpu"
    limit: float = 600.0  # seconds for one step, after which its process is ended
    editions: bool = False  # agree that the upload serves later editions of its job too
    overlapping: bool = False  # agree to what this and earlier sealed jobs tell together
    without_promise: bool = False  # take a method that may harm its receivers
    known: Path | None = None  # keys of other participants that the site got another way
    policy: Path | None = None  # the site's limits; by default those of the user, if any
    allow: tuple[str, ...] = ()  # code outside PACE, package.module:Name, that the job may run

    def __post_init__(self) -> None:
        if not 0 < self.limit < float("inf"):
            raise SettingError(f"limit is {self.limit:g}, expected seconds above 0")
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise SettingError(f"device is {self.device!r}, expected cpu or cuda")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The node of a node.toml."""
        return read_settings(cls, path)

    def check(self, job: Job) -> None:
        """Refuse a job that is another's, or that this site's settings do not agree to."""
        from pace.jobs import UP, check_promise
        from pace.runtimes.files import identity, read_policy, sealed_jobs

        try:
            owner, key = identity(job, Path(f"{self.name}{UP}"), self.key)
        except SignatureError as error:
            if job.sealed:
                raise
            raise EditionError(
                f"{error} in edition {job.number}: if this site is in a later one, put its .edition "
                f"file into {self.jobs}"
            ) from error
        if owner != self.name:
            raise ParticipantError(f"{self.key} is the key of {owner!r}, this is {self.name!r}")
        if job.sealed and key is not None:
            sealed_jobs.check_overlap(key, job, agreed=self.overlapping)
        if self.known is not None:
            sealed_jobs.check_known(job, self.name, self.known)
        check_promise(job, agreed=self.without_promise)
        read_policy(self.policy)

    def problems(self) -> list[str]:
        """What would keep this site from taking part; a graph is read whole."""
        from pace.jobs import newest_edition, read_job
        from pace.runtimes.files import load_site

        found: list[str] = []

        def attempt(step: Callable[..., T], *given: object) -> T | None:
            try:
                return step(*given)
            except PaceError as error:
                found.append(str(error))
                return None

        with plugins.allowing(self.allow):
            for path in self.job_files():
                job = attempt(read_job, path)
                job = job and attempt(newest_edition, job, self.jobs)
                if job is not None:
                    attempt(self.check, job)
                    attempt(load_site, self.graph, job)
        return found

    def job_files(self) -> list[Path]:
        """The jobs that this site's own person agreed to, by putting them here."""
        return [self.job, *sorted(self.jobs.glob("*.pace"))]

    @property
    def fits(self) -> str:
        """What has been looked at where `problems` found none."""
        return "job, graph and keys fit"

    def job_folder(self, digest: str) -> Path:
        """The folder of one job: two jobs never share a file."""
        return self.folder / digest[:16]
