"""A site's own tables: reading CSV and Parquet files, the codebook, and the graph they become."""

from pace.tables.codebook import BOTH, Codebook, read_columns, write_columns
from pace.tables.features import unscaled_features
from pace.tables.importing import Columns, Imported, import_graph
from pace.tables.mapping import ColumnMapping
from pace.tables.matching import propose_mapping
from pace.tables.problems import Problems, listed
from pace.tables.proposal import Proposal, merge_proposals, propose_columns
from pace.tables.streamed import StreamedTables
from pace.tables.table import arrow, check_option, data_columns, open_table, read_table
