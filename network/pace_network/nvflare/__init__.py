"""NVFlare as an engine: a job for a federation that runs NVFlare already, and what it runs there.

    OUT/job/      the NVFlare job to submit: it names `components`, and brings no code
    OUT/server/   pace.toml and job.pace, for the folder `local` of the server's startup kit
    OUT/NAME/     the same for a site's, which adds its graph and, where the job has keys, its own key

Site and server decide by their own pace.toml; the NVFlare job decides nothing.
"""

import json
from pathlib import Path

from pace.errors import FileError, SettingError
from pace.io import atomic, untrusted
from pace.jobs import SERVER, read_job

COMPONENTS = "pace_network.nvflare.components"
SETTINGS = "pace.toml"
LARGEST = 2**24  # bytes of a file of settings
FILTERS: dict[str, object] = {"task_data_filters": [], "task_result_filters": [], "components": []}
SERVER_TOML = """\
job = "job.pace"
journal = "job.journal"
out = "job.report"
{key}deadline = 3600.0  # seconds for uploads
"""
SITE_TOML = """\
name = "{name}"
job = "job.pace"
graph = "mine.graph"  # this site's own graph: `pace graph import` makes it
folder = "state"
{key}limit = 3600.0  # seconds for one step; then its process is ended
"""


def export(job_file: Path, out: Path) -> list[str]:
    """Write the NVFlare job and everybody's settings; the participants, who are NVFlare's clients."""
    job = read_job(job_file)
    if not job.participants:
        raise SettingError("no participants are listed: make a job with `pace new --participant …`")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out or move it")
    key = 'key = "%s.key"  # as `pace keys new` made it\n'
    controller = {"id": "pace", "path": f"{COMPONENTS}.RoundController", "args": {}}
    executor = {"path": f"{COMPONENTS}.SiteExecutor", "args": {}}
    both: dict[str, object] = {"format_version": 2, **FILTERS}
    texts = {
        "job/meta.json": {
            "name": job.name,
            "min_clients": job.minimum,
            "resource_spec": {},
            "deploy_map": {"app": ["@ALL"]},
        },
        "job/app/config/config_fed_server.json": both | {"workflows": [controller]},
        "job/app/config/config_fed_client.json": both
        | {"executors": [{"tasks": ["upload", "return"], "executor": executor}]},
    }
    files = {name: (json.dumps(text, indent=1) + "\n").encode() for name, text in texts.items()}
    for name in (SERVER, *job.participants):
        text = SERVER_TOML if name == SERVER else SITE_TOML
        mine = text.format(name=name, key=key % name if job.signed else "")
        files |= {f"{name}/{SETTINGS}": mine.encode(), f"{name}/job.pace": job_file.read_bytes()}
    atomic.folder(out, files)
    return list(job.participants)


def allow_components(kit: Path, settings: Path) -> list[Path]:
    """Put exported settings into a startup kit's `local`, and allow our components there.

    Raises:
        FileError: where the kit is none, or has another job's settings.
    """
    local, written = kit / "local", []
    mine, default = local / "resources.json", local / "resources.json.default"
    source = mine if mine.exists() else default
    if not source.exists():
        raise FileError(f"{source} not found: give the folder of an NVFlare server or client")
    resources = untrusted.json(untrusted.read(source, LARGEST))
    allowed = resources.setdefault("class_allow_list", [])
    for name in ("RoundController", "SiteExecutor"):
        if f"{COMPONENTS}.{name}" not in allowed:
            allowed.append(f"{COMPONENTS}.{name}")
    for name in (SETTINGS, "job.pace"):
        content = untrusted.read(settings / name, LARGEST)
        if atomic.create(local / name, content):
            written.append(local / name)
        elif not untrusted.same(local / name, content):
            raise FileError(f"{local / name} is another file: move it first")
    atomic.write(mine, (json.dumps(resources, indent=2) + "\n").encode())
    return [*written, mine]
