"""A site's own tables: reading CSV and Parquet files, the codebook, and the graph they become."""
