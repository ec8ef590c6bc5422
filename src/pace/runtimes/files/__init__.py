"""Runtime 2: organisations carry files. Jobs, messages, kept models and model folders on disk."""

from pace.runtimes.files import attacks, egress, merge, model, sealed_jobs
from pace.runtimes.files.client import (
    adopt_files,
    apart,
    edition_changes,
    fit_files,
    identity,
    withdraw_files,
)
from pace.runtimes.files.egress import Egress, Policy, read_policy
from pace.runtimes.files.inspect import inspect
from pace.runtimes.files.merge import Changes, MergeReport, merge_files, refused_table, server_key
from pace.runtimes.files.model import SiteModel, read_kept, read_model
from pace.runtimes.files.model_page import score_table
from pace.runtimes.files.outcome import STYLES, MaskScores, Outcome, findings
from pace.runtimes.files.rows import RowFiles, load_any, load_rows, mapped_sites, write_rows
from pace.runtimes.files.sealed_jobs import check_known
from pace.runtimes.files.site import Members, Site, class_names, load_site, site_of_dataset
