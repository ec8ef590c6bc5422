"""A site's own tables: reading CSV and Parquet files, the codebook, and the graph they become."""

from pace.tables import proposal
from pace.tables.agreement import codebook_discloses, codebook_rows, merge_proposals
from pace.tables.codebook import BOTH, CODEBOOK_FORMAT, Codebook, read_codebook, write_codebook
from pace.tables.features import unscaled_features
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.mapping import (
    ColumnMapping,
    read_mapping,
    render_mapping,
    write_mapping,
)
from pace.tables.matching import propose_mapping
from pace.tables.problems import Problems, listed
from pace.tables.proposal import (
    PROPOSAL_FORMAT,
    Proposal,
    proposal_discloses,
    propose_columns,
    read_proposal,
    write_proposal,
)
from pace.tables.streamed import StreamedTables
from pace.tables.table import check_option, data_columns, open_table, read_table
