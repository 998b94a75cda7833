"""Campaigns on the move: Parquet tables and result documents in a folder, from one archive into another.

FOLDER/manifest.json                            written last: every file's SHA-256, every campaign's content hash
       campaigns/<campaign>/<table>.parquet     one file for each table that has rows of the campaign
                            documents/*.json    the result documents, as they were collected
       ledger/<table>.parquet                   what belongs to no single campaign: prices and their readings, snapshots,
                                           decisions and, of a whole archive, the audit log

Rows name their trial by its place in trials.parquet, in the order of the natural key, so that the same content has the same hash in every
archive. Raw evidence stays in the result store: its URIs and SHA-256s travel, and which of it is kept no longer.
"""

from plumbline.archive.bundle.manifest import BadBundle, ExportedCampaign, ImportedCampaign

__all__ = ["BadBundle", "ExportedCampaign", "ImportedCampaign"]
